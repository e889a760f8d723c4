"""Whether the weights in a directory can take the place of those that a server holds. Reads headers, never tensors.

vLLM takes a checkpoint that lacks a tensor without a word and then serves a mixture of two models; a tensor of another
shape leaves it unable to take any weights again. So nothing may be pushed that was not compared.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graph.errors import ConfigError

_INDEX = "model.safetensors.index.json"
_HEAD = "lm_head.weight"
_FLOATS = {"F64", "F32", "F16", "BF16"}
"""Servers convert between these when they load."""
_COMPUTED = (
    "architectures",
    "model_type",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "hidden_activation",
    "rms_norm_eps",
    "layer_norm_eps",
    "tie_word_embeddings",
    "num_experts_per_tok",
)
"""Fields of config.json that change what is computed from tensors of the same shapes. Others are left out: releases of
transformers write them differently for the same model."""


@dataclass(frozen=True)
class Tensor:
    """One tensor as a header describes it."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Checkpoint:
    """A model in Hugging Face format with safetensors, complete and readable. Equal only while its files are."""

    directory: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    files: tuple[tuple[str, int, int], ...]
    """Name, size and time of change of each."""

    @classmethod
    def read(cls, directory: Path) -> "Checkpoint":
        """Read the headers of all files.

        Raises:
            ConfigError: a file is missing, cut off or not what its name says.
        """
        config = _json(directory / "config.json")
        index = directory / _INDEX
        if index.is_file():
            placed = _json(index).get("weight_map")
            if not isinstance(placed, dict):
                raise ConfigError(f"{index} does not say which file holds which tensor: copy or save the model again.")
            names = sorted(set(placed.values()))
        else:
            placed, names = None, sorted(file.name for file in directory.glob("*.safetensors"))
        if not names:
            raise ConfigError(f"{directory} holds no model in safetensors format: save it with safetensors.")
        tensors: dict[str, Tensor] = {}
        for name in names:
            tensors |= read_header(directory / name)
        if placed is not None and (astray := sorted(placed.keys() ^ tensors.keys())):
            raise ConfigError(f"{index} and its files do not agree on {astray[0]}: copy or save the model again.")
        states = [(name, (directory / name).stat()) for name in names]
        return cls(
            directory, config, tensors, tuple((name, found.st_size, found.st_mtime_ns) for name, found in states)
        )

    def check_fits(self, base: "Checkpoint") -> None:
        """Compare with the model that a server was started with.

        Raises:
            ConfigError: it is another architecture, or a tensor is missing, unknown or of another shape or type.
        """
        ours, theirs = _computed(self.config), _computed(base.config)
        for field in ours:
            if None not in (ours[field], theirs[field]) and ours[field] != theirs[field]:
                raise ConfigError(
                    f"{self.directory} is no version of {base.directory}: {field} is {ours[field]!r} in place of "
                    f"{theirs[field]!r}."
                )
        tied = base.config.get("tie_word_embeddings") or _HEAD not in base.tensors
        for name in sorted(self.tensors.keys() | base.tensors.keys()):
            if name == _HEAD and tied:
                continue  # files may hold it or not; it is not used
            if why := _difference(self.tensors.get(name), base.tensors.get(name)):
                raise ConfigError(f"{self.directory} is no version of {base.directory}: {name} {why}.")


def local_checkpoint(root: str) -> Checkpoint | None:
    """Return the model that a server calls by `root`, a directory or a name on the hub.

    Returns:
        None where this machine has no copy of it, or none in safetensors format.

    Raises:
        ConfigError: the copy is damaged.
    """
    directory = Path(root)
    if not directory.is_dir():
        try:
            from huggingface_hub import try_to_load_from_cache  # comes with the train extra
        except ImportError:
            return None
        try:
            config = try_to_load_from_cache(root, "config.json")
        except ValueError:  # a directory of another machine is no name
            return None
        if not isinstance(config, str):
            return None
        directory = Path(config).parent
    if not any(directory.glob("*.safetensors")):
        return None
    return Checkpoint.read(directory)


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}): copy or save the model again.") from error
    except ValueError as error:
        raise ConfigError(f"{file} is not JSON: copy or save the model again.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file} is not a JSON object: copy or save the model again.")
    return found


def read_header(file: Path) -> dict[str, Tensor]:
    """Return what a safetensors file holds: 8 bytes that say how long the JSON header is, the header, the data."""
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(length)) if length <= size else {}
        header.pop("__metadata__", None)
        end = 8 + length + max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
        tensors = {name: Tensor(found["dtype"], tuple(found["shape"])) for name, found in header.items()}
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}): copy or save the model again.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} is no safetensors file: copy or save the model again.") from error
    if size != end:
        raise ConfigError(f"{file} has {size} bytes in place of {end}: copy or save the model again.")
    return tensors


def _computed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that must agree; None for those that a configuration leaves out."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    fields = {field: config.get(field) for field in _COMPUTED}
    return fields | {
        "rope_theta": config.get("rope_theta", rope.get("rope_theta")),
        "rope factor": rope.get("factor", 1),
    }


def _difference(ours: Tensor | None, theirs: Tensor | None) -> str | None:
    if ours is None:
        return "is missing"
    if theirs is None:
        return "is not in that model"
    if ours.shape != theirs.shape:
        return f"has the shape {list(ours.shape)} in place of {list(theirs.shape)}"
    if ours.dtype != theirs.dtype and not {ours.dtype, theirs.dtype} <= _FLOATS:
        return f"has the type {ours.dtype} in place of {theirs.dtype}"
    return None
