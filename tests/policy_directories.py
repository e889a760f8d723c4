"""Directories that look like an adapter's and a model's, with a few numbers as weights."""

import json
import struct
from pathlib import Path


def adapter_directory(directory: Path, *, base: str = "/models/base") -> Path:
    directory.mkdir(parents=True)
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": base,
        "r": 8,
        "lora_alpha": 16,
        "target_modules": ["q_proj"],
    }
    (directory / "adapter_config.json").write_text(json.dumps(config))
    names = ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "base_model.model.lm_head.lora_B.weight")
    write_safetensors(directory / "adapter_model.safetensors", dict.fromkeys(names, (2, 2)))
    return directory


def weights_directory(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}))
    write_safetensors(directory / "model.safetensors", {"model.norm.weight": (4,)})
    return directory


def write_safetensors(file: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """Write tensors of zeros in the format of the safetensors library, which the base install lacks."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 4
        for side in shape:
            size *= side
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
