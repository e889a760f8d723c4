"""What a directory has to hold to become a policy."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graph.errors import ConfigError
from graph.policies.weights_check import Checkpoint, read_header

_ADAPTER_CONFIG = "adapter_config.json"
_ADAPTER = "adapter_model.safetensors"
_RECORD = "policy.json"
_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}
"""Reading these runs code."""
_LEFT_OUT = re.compile(
    r"optimizer\.(pt|bin)|scheduler\.pt|rng_state(_\d+)?\.pth|scaler\.pt|training_args\.bin|trainer_state\.json"
)
"""What a trainer's checkpoint holds beside the model."""


@dataclass(frozen=True)
class PolicyFiles:
    """A directory that was found to hold an adapter or a model."""

    directory: Path
    kind: Literal["adapter", "weights"]
    base_model: str
    base_revision: str | None
    names: tuple[str, ...]
    """What belongs to it, relative to the directory."""

    @classmethod
    def read(cls, directory: Path, *, base_model: str | None, base_revision: str | None) -> "PolicyFiles":
        """Look at a directory; headers are read, tensors are not.

        Raises:
            ConfigError: it holds no whole adapter or model in safetensors format, or one of another base.
        """
        if not directory.is_dir():
            raise ConfigError(f"There is no directory {directory}: name that of an adapter or a model.")
        names = _names(directory)
        if _ADAPTER_CONFIG in names:
            base, revision = _adapter_base(directory)
            read_header(directory / _ADAPTER)
            if base_model is not None and base is not None and Path(base_model).name != Path(base).name:
                raise ConfigError(f"The adapter in {directory} belongs to {base}, not to {base_model}.")
            return cls(directory, "adapter", _known(base_model or base, directory), base_revision or revision, names)
        if "config.json" not in names:
            raise ConfigError(
                f"{directory} holds neither an adapter (adapter_config.json) nor a model (config.json): name the "
                "directory that training wrote."
            )
        Checkpoint.read(directory)
        return cls(directory, "weights", _known(base_model, directory), base_revision, names)


def _names(directory: Path) -> tuple[str, ...]:
    """Return the files of a policy in this directory.

    Raises:
        ConfigError: one of them leads elsewhere, or would run code when it is read.
    """
    names = []
    for path in sorted(directory.iterdir()):
        if path.name == _RECORD or _LEFT_OUT.fullmatch(path.name) or path.name.startswith(".") or path.is_dir():
            continue
        if not path.is_file():
            raise ConfigError(f"{path} is no file: save the policy again.")
        if path.suffix in _PICKLES:
            raise ConfigError(f"{path} may run code when it is read: save the policy with safetensors, and remove it.")
        names.append(path.name)
    return tuple(names)


def _adapter_base(directory: Path) -> tuple[str | None, str | None]:
    file = directory / _ADAPTER_CONFIG
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        kind, base, revision = (config.get(name) for name in ("peft_type", "base_model_name_or_path", "revision"))
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be read as JSON: save the adapter again.") from error
    if kind != "LORA":
        raise ConfigError(f"{file} is of the kind {kind}: only LoRA adapters can be served.")
    return base or None, revision or None


def _known(base_model: str | None, directory: Path) -> str:
    if base_model is None:
        raise ConfigError(f"{directory} does not say which model it belongs to: name it (--base-model).")
    return base_model
