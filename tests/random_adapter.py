"""LoRA adapters that change what a model says, without training."""

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

_PARTS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def random_adapter(model: Path, directory: Path, *, seed: int, rank: int = 8, strength: float = 0.05) -> Path:
    """Write a PEFT adapter of every linear layer, with B normal of deviation `strength`."""
    torch.manual_seed(seed)
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    adapted = get_peft_model(
        base, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=_PARTS, task_type="CAUSAL_LM")
    )
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, strength)
    adapted.save_pretrained(str(directory))
    return directory
