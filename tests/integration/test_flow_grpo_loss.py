"""The trainer's loss and gradient against the method's formula, written out with one unpadded forward pass per turn.

It guards every upgrade of TRL: the weights ride on how TRL's loss sums a batch.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from graph.errors import ConfigError
from graph.trace import Trajectory
from tests.trajectories import make_trajectory
from training.flow_grpo import FlowGRPOConfig, FlowGRPOTrainer
from training.replay import TraceReplay

# TRL 1.16 uses names that transformers has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning")

LORA = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
GROUP_SIZE = 6


@dataclass(frozen=True)
class Setting:
    beta: float
    accumulation: int
    temperature: float
    lora: bool
    epsilon_high: float = 0.3
    steps_per_generation: int | None = None


@pytest.mark.parametrize(
    "setting",
    [
        Setting(beta=0.0, accumulation=1, temperature=1.0, lora=False),
        Setting(beta=0.04, accumulation=3, temperature=0.7, lora=False),
        Setting(beta=0.1, accumulation=4, temperature=1.0, lora=False, epsilon_high=0.2),
        Setting(beta=0.04, accumulation=1, temperature=0.5, lora=True),
        Setting(beta=0.1, accumulation=2, temperature=1.0, lora=True),
        Setting(beta=0.04, accumulation=2, temperature=1.0, lora=True, steps_per_generation=4),
    ],
    ids=str,
)
def test_loss_and_gradient_are_the_formula(setting: Setting, tiny_model: Path, tmp_path: Path) -> None:
    policy, reference = _load(tiny_model), _load(tiny_model)
    groups = _groups(policy, setting.temperature)
    trainer = _trainer(tiny_model, tmp_path, groups, setting)
    _move_off_the_reference(trainer.model)
    if setting.lora:
        policy = get_peft_model(policy, LORA)
    policy.load_state_dict(trainer.model.state_dict())

    expected = _formula(policy, reference, groups, setting)
    expected.backward()
    loss = _accumulate(trainer, groups, setting)

    gradient, hand_written = _gradient(trainer.model), _gradient(policy)
    assert hand_written.norm() > 0.01
    assert loss == pytest.approx(expected.item(), abs=2e-6)
    assert (gradient - hand_written).norm() / hand_written.norm() < 1e-4
    assert 0.05 < _mean(trainer, "clip_ratio/region_mean") < 0.95, "the clip must matter in this test"


def test_a_batch_of_failures_moves_nothing_and_is_finite(tiny_model: Path, tmp_path: Path) -> None:
    setting = Setting(beta=0.1, accumulation=2, temperature=1.0, lora=True)
    groups = _groups(_load(tiny_model), setting.temperature)
    trainer = _trainer(tiny_model, tmp_path, groups, setting)
    _move_off_the_reference(trainer.model)
    trainer._source = lambda inputs: [None] * len(inputs)
    loss = _accumulate(trainer, groups, setting)
    assert loss == 0.0
    assert _gradient(trainer.model).abs().max() == 0.0


@pytest.mark.parametrize(
    "option",
    [{"loss_type": "grpo"}, {"mask_truncated_completions": True}, {"use_bias_correction_kl": True}, {"delta": 2.0}],
    ids=str,
)
def test_options_of_another_loss_are_refused(option: dict[str, Any], tiny_model: Path, tmp_path: Path) -> None:
    args = FlowGRPOConfig(output_dir=str(tmp_path), bf16=False, **option)
    with pytest.raises(ConfigError, match=next(iter(option))):
        FlowGRPOTrainer(
            str(tiny_model),
            args=args,
            source=lambda inputs: [None] * len(inputs),
            train_dataset=Dataset.from_list([{"prompt": "a"}]),
            processing_class=AutoTokenizer.from_pretrained(tiny_model),
        )


def _load(directory: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)


def _logprobs(model: torch.nn.Module, prompt: list[int], completion: list[int], temperature: float) -> torch.Tensor:
    logits = model(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1] / temperature
    return logits.log_softmax(-1).gather(1, torch.tensor(completion)[:, None])[:, 0]  # (|a|,)


def _formula(
    policy: torch.nn.Module, reference: torch.nn.Module, groups: list[list[Trajectory]], s: Setting
) -> torch.Tensor:
    """-1/groups sum_g 1/G sum_i 1/T_i sum_t 1/|a| sum_j [min(rho A, clip(rho) A) - beta k3]."""
    per_group = []
    for group in groups:
        scored = [trajectory for trajectory in group if trajectory.reward is not None]
        if not scored:
            continue
        rewards = torch.tensor([trajectory.reward for trajectory in scored])
        total = torch.tensor(0.0)
        for trajectory in scored:
            deviation = rewards.std(correction=1) if len(scored) > 1 else torch.tensor(1.0)
            advantage = (trajectory.reward - rewards.mean()) / (deviation + 1e-4)
            turns = [call for call in trajectory.calls if call.role == "planner"]
            for call in (call for call in turns if call.completion_ids):
                new = _logprobs(policy, call.prompt_ids, call.completion_ids, s.temperature)
                with torch.no_grad():
                    anchor = _logprobs(reference, call.prompt_ids, call.completion_ids, s.temperature)
                rho = (new - torch.tensor(call.logprobs)).exp()
                clipped = rho.clamp(1 - 0.2, 1 + s.epsilon_high)
                kl = (anchor - new).exp() - (anchor - new) - 1
                token = torch.min(rho * advantage, clipped * advantage) - s.beta * kl
                total = total + token.mean() / len(turns)
        per_group.append(total / len(scored))
    return -torch.stack(per_group).mean()


def _groups(model: torch.nn.Module, temperature: float) -> list[list[Trajectory]]:
    """Four groups: one with failures, one of equal rewards, one wholly failed, one short; ratios far from 1."""
    random = torch.Generator().manual_seed(1)

    def integer(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=random))

    def call(length: int) -> tuple[list[int], list[int], list[float]]:
        prompt = torch.randint(3, 600, (integer(3, 30),), generator=random).tolist()
        completion = torch.randint(3, 600, (length,), generator=random).tolist()
        with torch.no_grad():
            exact = _logprobs(model, prompt, completion, temperature)
        return prompt, completion, (exact + 0.4 * torch.randn(length, generator=random)).tolist()

    groups = []
    for g in range(4):
        group = []
        for i in range(GROUP_SIZE if g < 3 else GROUP_SIZE - 2):
            calls = [call(integer(1, 9)) for _ in range(integer(1, 5))]
            reward: float | None = float(i % 2)
            if g == 0 and i in (1, 4):
                reward = None
            if g == 1:
                reward = 1.0
            if g == 2:
                reward = None
            if g == 3 and i == 0:
                calls[0] = call(0)
            group.append(
                make_trajectory(f"{g}-{i}", group=str(g), reward=reward, planner_calls=calls, temperature=temperature)
            )
        groups.append(group)
    return groups


def _trainer(model: Path, output: Path, groups: list[list[Trajectory]], setting: Setting) -> FlowGRPOTrainer:
    replay = TraceReplay(trajectory for group in groups for trajectory in group)
    assert replay.group_size == GROUP_SIZE
    steps = setting.steps_per_generation or setting.accumulation
    args = FlowGRPOConfig(
        output_dir=str(output),
        max_steps=1,
        num_generations=GROUP_SIZE,
        per_device_train_batch_size=GROUP_SIZE * len(groups) // steps,
        gradient_accumulation_steps=setting.accumulation,
        steps_per_generation=steps,
        beta=setting.beta,
        epsilon=0.2,
        epsilon_high=setting.epsilon_high,
        temperature=setting.temperature,
        max_completion_length=16,
        bf16=False,
        activation_checkpointing=False,
        dataloader_pin_memory=False,
    )
    return FlowGRPOTrainer(
        str(model),
        args=args,
        source=replay,
        train_dataset=Dataset.from_list(replay.prompts()),
        processing_class=AutoTokenizer.from_pretrained(model),
        peft_config=LORA if setting.lora else None,
    )


def _move_off_the_reference(model: torch.nn.Module) -> None:
    random = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=random))


def _accumulate(trainer: FlowGRPOTrainer, groups: list[list[Trajectory]], setting: Setting) -> float:
    """Run the micro-steps of one generation batch as `Trainer.train` does; the mean over its accumulation windows."""
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = setting.accumulation
    steps = setting.steps_per_generation or setting.accumulation
    rows = [{"prompt": str(g)} for g in range(len(groups)) for _ in range(GROUP_SIZE)]
    windows = steps // setting.accumulation
    total = 0.0
    for step in range(steps):
        trainer._step = step
        loss = trainer._compute_loss(trainer.model, trainer._prepare_inputs([dict(row) for row in rows])) / windows
        loss.backward()
        total += loss.item()
    return total


def _gradient(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad and p.grad is not None])


def _mean(trainer: FlowGRPOTrainer, metric: str) -> float:
    values = trainer._metrics["train"][metric]
    return sum(values) / len(values)
