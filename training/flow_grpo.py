"""Flow-GRPO: the planner of a multi-turn flow is trained with each trajectory's final reward.

1. A question's trajectories form a group, and a trajectory's advantage is its reward less the mean of the group's
   scored trajectories, over their standard deviation.
2. Every planner call of a trajectory gets that advantage: which turn earned the reward is not asked.
3. Each call is a row of its own, prompt and completion, as the planner's prompt is rebuilt from memory at every turn.
4. A row counts with 1/T of its trajectory's turns and 1/|a| of its own tokens, so that neither long trajectories nor
   long plans weigh more.
5. The log-probabilities recorded when sampling are pi_old of the clipped ratio rho.

    J = E[ 1/G sum_i 1/T_i sum_t 1/|a| sum_j ( min(rho A_i, clip(rho, 1 - e_low, 1 + e_high) A_i) - beta KL ) ]
    A_i = (R_i - mean_G) / (std_G + 1e-4), std with ddof 1; KL to pi_ref by the k3 estimator, not multiplied by rho

E is the mean over the batch's groups with a scored trajectory, and G a group's number of them. A failed trajectory
(reward None) is in no baseline and has no rows.

TRL's `GRPOTrainer` samples the questions and does advantages, reference log-probabilities, the clipped loss,
accumulation, logging and checkpoints. Its "dapo" loss sums `per-token loss * mask` over a batch and divides by a number
that it reads from the batch: the weights of 4 are put into that mask, and that number is set to match. Left out: TRL's
own generation (a source hands in trajectories), and its variants of the loss, which the constructor refuses.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from datasets import Dataset
from peft import PeftConfig, PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from graph.errors import ConfigError, RolloutError
from graph.trace import Trajectory
from training.turn_row import TurnRow, rows_of

TrajectorySource = Callable[[Sequence[Mapping[str, Any]]], Sequence[Trajectory | None]]
"""Given a batch's rows (each question G times in a row), a trajectory for each; None for one that was lost."""

_FILLER = -1
"""Trajectory index of a row of weight 0."""

_REQUIRED: dict[str, Any] = {
    "loss_type": "dapo",
    "importance_sampling_level": "token",
    "scale_rewards": "group",
    "multi_objective_aggregation": "sum_then_normalize",
    "use_bias_correction_kl": False,
    "mask_truncated_completions": False,
    "top_entropy_quantile": 1.0,
    "delta": None,
    "off_policy_mask_threshold": None,
    "use_vllm": False,
    "log_completions": False,
}
"""Options under which TRL's loss is the formula above (its table of completions wants one row per prompt)."""


@dataclass
class FlowGRPOConfig(GRPOConfig):
    """TRL's options with the defaults of Flow-GRPO. `per_device_train_batch_size` counts trajectories, not turns."""

    loss_type: str = field(default="dapo")
    use_bias_correction_kl: bool = field(default=False)
    beta: float = field(default=0.001)
    epsilon: float = field(default=0.2)
    temperature: float = field(default=0.5)
    max_completion_length: int | None = field(default=2048)
    disable_dropout: bool = field(default=True)
    remove_unused_columns: bool | None = field(default=False)
    # TRL 1.16 sets the first, which transformers has deprecated in favour of the second.
    gradient_checkpointing: bool | None = field(default=None)  # type: ignore[assignment]
    activation_checkpointing: bool | None = field(default=True)
    report_to: str | list[str] | None = field(default="none")


class FlowGRPOTrainer(GRPOTrainer):
    """`GRPOTrainer` for trajectories of several planner calls each.

    Raises `ConfigError` for options under which the loss would be another one.
    """

    args: FlowGRPOConfig
    model: PreTrainedModel | PeftModel

    def __init__(
        self,
        model: str,
        *,
        args: FlowGRPOConfig,
        source: TrajectorySource,
        train_dataset: Dataset,
        processing_class: PreTrainedTokenizerBase,
        peft_config: PeftConfig | None = None,
        **options: Any,
    ) -> None:
        for name, value in _REQUIRED.items():
            if getattr(args, name) != value:
                raise ConfigError(
                    f"Flow-GRPO needs {name} = {value!r}, not {getattr(args, name)!r}: leave the option out."
                )
        self._source = source
        self._inputs: list[dict[str, Any]] = []
        self._rewards: list[float | None] = []
        """Per trajectory of the batch on this process."""
        self._turns: list[int] = []
        """T_i, per trajectory of the batch on this process."""
        self._index: list[int] = []
        """Per row: the trajectory that it belongs to, or `_FILLER`."""
        with warnings.catch_warnings():
            # TRL's experimental interfaces are guarded by the numeric test and the pinned range.
            warnings.filterwarnings("ignore", message="You are using 'rollout_func'", category=UserWarning)
            super().__init__(
                model,
                reward_funcs=trajectory_reward,
                args=args,
                train_dataset=train_dataset,
                processing_class=processing_class,
                peft_config=peft_config,
                rollout_func=self._roll_out,
                **options,
            )

    def _send_telemetry(self) -> None:
        """TRL reports each training run to its makers; this project reports to nobody."""

    def _roll_out(self, prompts: list[str], _trainer: GRPOTrainer) -> dict[str, Any]:
        """Return N turn rows for a batch of `len(prompts)` trajectories. N is divisible by the steps per generation."""
        trajectories = self._source(self._inputs)
        if len(trajectories) != len(prompts):
            raise RolloutError(f"The source gave {len(trajectories)} trajectories for a batch of {len(prompts)}.")
        self._rewards = [None if trajectory is None else trajectory.reward for trajectory in trajectories]
        rows: list[TurnRow] = []
        self._turns, self._index = [], []
        for i, trajectory in enumerate(trajectories):
            turns = () if trajectory is None or trajectory.reward is None else rows_of(trajectory)
            if any(row.temperature != self.temperature for row in turns):
                raise RolloutError(f"The planner must be sampled at temperature {self.temperature}, as it is trained.")
            self._turns.append(len(turns))
            # An empty completion is a turn (it counts in T_i) whose sum over tokens is empty: it needs no row.
            sampled = [row for row in turns if row.completion_ids]
            rows.extend(sampled)
            self._index.extend([i] * len(sampled))
        self._fill(rows)
        return {
            "prompt_ids": [list(row.prompt_ids) for row in rows],
            "completion_ids": [list(row.completion_ids) for row in rows],
            "logprobs": [list(row.logprobs) for row in rows],
            "trajectory_reward": self._rewards,
        }

    def _fill(self, rows: list[TurnRow]) -> None:
        """Append rows of weight 0: TRL drops the remainder of a split, and gathers equal shapes from all processes."""
        most = int(self.accelerator.gather(torch.tensor([len(rows)], device=self.accelerator.device)).max())
        chunks = (self.args.steps_per_generation or 1) if self.model.training else 1
        wanted = max(-(-most // chunks), 1) * chunks
        eos = self._tokenizer.eos_token_id
        filler = rows[0] if rows else TurnRow((eos,), (eos,), (0.0,), self.temperature, trajectory="", group=None)
        self._index.extend([_FILLER] * (wanted - len(rows)))
        rows.extend([filler] * (wanted - len(rows)))

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Score a batch as TRL does, then go from trajectories to rows: advantages, pi_old and weights."""
        self._inputs = inputs
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        index = torch.tensor(self._index, device=self.accelerator.device)  # (N,)
        real = index != _FILLER
        owner = index.clamp(min=0)
        batch["advantages"] = torch.where(real, batch["advantages"][owner], 0.0)  # (len(inputs),) -> (N,)
        batch["old_per_token_logps"] = batch["sampling_per_token_logps"]  # (N, C)
        lengths = batch["completion_mask"].sum(dim=1)  # (N,)
        tokens = self.accelerator.reduce((lengths * real).sum().float(), "sum").clamp(min=1)
        # The factor `tokens` cancels in the loss; it keeps TRL's logged means over the mask on their usual scale.
        weights = torch.where(real, tokens * self._shares()[owner] / lengths, 0.0)  # (N,)
        batch["tool_mask"] = weights.unsqueeze(1).expand_as(batch["completion_ids"]).contiguous()  # (N, C)
        batch["num_items_in_batch"] = tokens
        self._log_flow()
        return batch

    def _shares(self) -> torch.Tensor:
        """Return 1 / (groups * G * T_i) for each trajectory of this process: (len(inputs),)."""
        device = self.accelerator.device
        size = self.num_generations if self.model.training else self.num_generations_eval
        scored = torch.tensor([reward is not None for reward in self._rewards], device=device)
        everywhere = self.accelerator.gather(scored).view(-1, size).sum(dim=1)  # scored trajectories per group
        groups = (everywhere > 0).sum().clamp(min=1)
        start = self.accelerator.process_index * len(scored)
        group_sizes = everywhere.repeat_interleave(size)[start : start + len(scored)].clamp(min=1)
        turns = torch.tensor(self._turns, device=device).clamp(min=1)
        shares: torch.Tensor = 1.0 / (groups * group_sizes * turns)
        return shares

    def _log_flow(self) -> None:
        metrics = self._metrics["train" if self.model.training else "eval"]
        turns = [count for count, reward in zip(self._turns, self._rewards, strict=True) if reward is not None]
        metrics["flow/turns_mean"].append(sum(turns) / max(len(turns), 1))
        metrics["flow/rows"].append(float(len(self._index) - self._index.count(_FILLER)))
        metrics["flow/failed"].append(float(self._rewards.count(None)))


def trajectory_reward(trajectory_reward: list[float | None], **_: Any) -> list[float | None]:
    """TRL's reward function: the trajectories' own rewards, None for those that failed."""
    return trajectory_reward
