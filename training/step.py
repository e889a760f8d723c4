"""One optimiser step from recorded trajectories to a LoRA adapter."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig
from pydantic import BaseModel, ConfigDict, Field
from transformers import AutoTokenizer, PrinterCallback, set_seed

from graph.errors import ConfigError
from graph.trace import Trajectory
from training.flow_grpo import FlowGRPOConfig, FlowGRPOTrainer
from training.replay import TraceReplay


class StepSettings(BaseModel):
    """How the step is taken."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    learning_rate: float = Field(1e-6, gt=0)
    beta: float = Field(0.001, ge=0)
    """Weight of the KL divergence from the base model."""
    epsilon: float = Field(0.2, gt=0, lt=1)
    lora_rank: int = Field(16, ge=1)
    """At most the rank that the server was started for."""
    seed: int = 0


def train_one_step(
    trajectories: Iterable[Trajectory], *, model: Path, out: Path, settings: StepSettings | None = None
) -> Path:
    """Take one Flow-GRPO step on all groups together and write the adapter to `out`, which must not exist yet.

    Returns `out`: a PEFT adapter of the base model in directory `model`. It appears whole or not at all. Raises
    `ConfigError` where `out` exists or `model` holds no model, `TraceError` and `RolloutError` as `TraceReplay` does.
    """
    settings = settings or StepSettings()
    if out.exists():
        raise ConfigError(f"{out} exists already: give each version of the policy a new directory.")
    if not (model / "config.json").is_file():
        raise ConfigError(f"{model} holds no model in Hugging Face format (config.json is missing).")
    replay = TraceReplay(trajectories)
    set_seed(settings.seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as directory:
        scratch = Path(directory)
        trainer = FlowGRPOTrainer(
            str(model),
            args=_arguments(replay, settings, scratch / "trainer"),
            source=replay,
            train_dataset=Dataset.from_list(replay.prompts()),
            processing_class=AutoTokenizer.from_pretrained(model),
            peft_config=LoraConfig(
                r=settings.lora_rank,
                lora_alpha=2 * settings.lora_rank,
                target_modules="all-linear",
                task_type="CAUSAL_LM",
            ),
        )
        trainer.remove_callback(PrinterCallback)  # it prints a summary: what is printed is the command line's business
        trainer.train()
        trainer.model.save_pretrained(str(scratch / "adapter"))
        os.rename(scratch / "adapter", out)
    return out


def _arguments(replay: TraceReplay, settings: StepSettings, output: Path) -> FlowGRPOConfig:
    """One step over one batch that holds every group; micro-batches are as many rows as a group has on average."""
    cuda = torch.cuda.is_available()
    return FlowGRPOConfig(
        output_dir=str(output),
        max_steps=1,
        num_generations=replay.group_size,
        per_device_train_batch_size=replay.group_size,
        gradient_accumulation_steps=len(replay.groups),
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        beta=settings.beta,
        epsilon=settings.epsilon,
        temperature=replay.temperature,
        seed=settings.seed,
        bf16=cuda,
        use_cpu=not cuda,
        dataloader_pin_memory=cuda,
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
