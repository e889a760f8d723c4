"""Which GGUF file an engine serves, and how much memory that takes."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from graph.assets.place import path_of
from graph.assets.registry import MODELS
from graph.engine.info import slot_count
from graph.engine.machine import free_memory
from graph.engine.settings import LocalSettings
from graph.errors import ConfigError

PROMPT_CACHE_MB = 256
"""Memory in which an engine keeps prompts that other prompts have pushed out of their slot."""


@dataclass(frozen=True)
class AdapterFile:
    """A GGUF LoRA on disk, which an engine applies to its model."""

    path: Path
    name: str
    """What the server calls the model with it."""
    identity: str
    """Changes when the file does."""
    size: int
    """Bytes."""


@dataclass(frozen=True)
class ModelFile:
    """A model on disk."""

    path: Path
    name: str
    """What the server calls it."""
    identity: str
    """Changes when the file does."""
    size: int
    """Bytes."""


def model_file(settings: LocalSettings) -> ModelFile:
    """The file that `settings.model` means.

    Raises SetupError when it is not fetched, ConfigError when it is no GGUF file.
    """
    if settings.model in MODELS:
        asset = MODELS[settings.model]
        path = path_of(asset)
        return ModelFile(path, path.stem, asset.sha256, asset.size)
    path = Path(settings.model).expanduser().absolute()
    names = " or ".join(f'"{name}"' for name in MODELS)
    try:
        with path.open("rb") as file:
            magic, stat = file.read(4), os.fstat(file.fileno())
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(
            f'local.model = "{settings.model}" cannot be read ({reason}): set it to {names}, or to a GGUF file\'s path.'
        ) from error
    if magic != b"GGUF":
        raise ConfigError(f"{path} is not a GGUF file: set local.model to {names}, or to the path of one.")
    identity = hashlib.sha256(f"{path}\n{stat.st_size}\n{stat.st_mtime_ns}".encode()).hexdigest()
    return ModelFile(path, path.stem, identity, stat.st_size)


def memory_needed(model: ModelFile, settings: LocalSettings, adapter: AdapterFile | None = None) -> int:
    """Bytes that an engine takes, about.

    The cache of a token takes a 40,000th of the weights in both of the models that `agentflow setup` offers (28 KiB in
    the 1.5B, 12 KiB in the 0.5B); other models are taken to be like them.
    """
    tokens = settings.context_per_slot * slot_count(with_adapter=adapter is not None)
    weights = model.size * 1.25 + (adapter.size if adapter else 0)
    return int(weights + model.size / 40_000 * tokens) + (PROMPT_CACHE_MB << 20) + (256 << 20)


def check_memory(model: ModelFile, settings: LocalSettings, adapter: AdapterFile | None = None) -> None:
    """Raise ConfigError when an engine for `model` does not fit into the memory that is free."""
    needed, free = memory_needed(model, settings, adapter), free_memory()
    if needed <= free:
        return
    smaller = 'local.model = "0.5b" or ' if settings.model == "1.5b" else ""
    raise ConfigError(
        f"The embedded model needs about {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free: "
        f"set {smaller}a smaller local.context_per_slot, or stop other programs and engines."
    )
