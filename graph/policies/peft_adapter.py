"""A PEFT LoRA adapter on disk, as far as it only adds scale · B · A to weight matrices.

llama.cpp applies nothing else, and silently passes over some of the rest; so whatever else an adapter does is refused.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graph.errors import ConfigError, SetupError

if TYPE_CHECKING:
    import numpy as np

    Matrix = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

CONFIG_FILE = "adapter_config.json"
TENSOR_FILE = "adapter_model.safetensors"
_PREFIX = "base_model.model."
_NUMPY_NAMES = {"F16": "<f2", "F32": "<f4"}
_MATRIX = re.compile(r"(?P<module>.+)\.lora_(?P<side>[AB])\.weight")
_HARMLESS_STARTS = (True, False, "gaussian", "eva", "orthogonal")
"""Values of init_lora_weights that leave the model's own weights as they are."""
_OTHER_COMPUTATIONS = {
    "use_dora": "DoRA",
    "use_qalora": "QALoRA",
    "use_bdlora": "block-diagonal LoRA",
    "lora_bias": "biases in the adapter (lora_bias)",
    "layer_replication": "repeated layers (layer_replication)",
    "alora_invocation_tokens": "activation by tokens (aLoRA)",
    "arrow_config": "routing between adapters (Arrow)",
    "trainable_token_indices": "single trained tokens (trainable_token_indices)",
    "modules_to_save": "modules trained whole (modules_to_save)",
    "target_parameters": "parameters outside of linear layers (target_parameters)",
}
"""Fields of the configuration by what they bring in where they are set."""


class _Config(BaseModel):
    """What adapter_config.json says of the scale."""

    model_config = ConfigDict(frozen=True, strict=True)

    peft_type: Literal["LORA"]
    r: int = Field(gt=0)
    lora_alpha: float = Field(gt=0)
    use_rslora: bool = False
    rank_pattern: dict[str, int] = Field(default_factory=dict)
    alpha_pattern: dict[str, float] = Field(default_factory=dict)

    def rank(self, module: str) -> int:
        return int(_by_pattern(self.rank_pattern, module, self.r))

    def scale(self, module: str) -> float:
        """What PEFT multiplies B · A with."""
        rank, alpha = self.rank(module), _by_pattern(self.alpha_pattern, module, self.lora_alpha)
        return alpha / (math.sqrt(rank) if self.use_rslora else rank)


@dataclass(frozen=True)
class LoraPair:
    """What is added to one weight matrix."""

    a: "Matrix"
    """(rank, inputs)."""
    b: "Matrix"
    """(outputs, rank)."""
    scale: float


@dataclass(frozen=True)
class PeftAdapter:
    """An adapter that was read."""

    directory: Path
    alpha: float
    pairs: Mapping[str, LoraPair]
    """By the module's name in Hugging Face's model, such as `model.layers.0.self_attn.q_proj`."""

    @classmethod
    def read(cls, directory: Path) -> "PeftAdapter":
        """Read and check an adapter's directory.

        Raises:
            ConfigError: a file is missing or damaged, or the adapter does more than add products to matrices.
            SetupError: the `local` extra is not installed.
        """
        config = _read_config(directory)
        halves: dict[str, dict[str, Matrix]] = {}
        for name, tensor in _read_tensors(directory).items():
            found = _MATRIX.fullmatch(name.removeprefix(_PREFIX))
            if found is None:
                raise _inapplicable(directory, _meaning(name))
            halves.setdefault(found["module"], {})[found["side"]] = tensor
        if not halves:
            raise _damaged(directory / TENSOR_FILE, "it holds no tensor")
        return cls(
            directory,
            config.lora_alpha,
            {module: _pair(directory, config, module, sides) for module, sides in halves.items()},
        )


def _read_config(directory: Path) -> _Config:
    file = directory / CONFIG_FILE
    try:
        text = file.read_bytes()
        config = _Config.model_validate_json(text)
        fields = _AnyFields.model_validate_json(text).__pydantic_extra__ or {}
        for pattern in [*config.rank_pattern, *config.alpha_pattern]:
            re.compile(pattern)
    except OSError as error:
        raise _damaged(file, error.strerror or str(error)) from error
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise _damaged(file, f"{where}: {problem['msg']}" if where else problem["msg"]) from error
    except re.error as error:
        raise _damaged(file, f"a pattern is wrong: {error}") from error
    for field, meaning in _OTHER_COMPUTATIONS.items():
        if fields.get(field):
            raise _inapplicable(directory, meaning)
    if fields.get("bias", "none") != "none":
        raise _inapplicable(directory, f"trained biases (bias = {fields['bias']!r})")
    if fields.get("init_lora_weights", True) not in _HARMLESS_STARTS:
        start = fields["init_lora_weights"]
        raise _inapplicable(directory, f"a start that changes the model's own weights (init_lora_weights = {start!r})")
    return config


class _AnyFields(BaseModel):
    model_config = ConfigDict(extra="allow")


def _read_tensors(directory: Path) -> "dict[str, Matrix]":
    """Return all tensors in float32, which holds every number of the other formats exactly."""
    try:
        from safetensors import SafetensorError, deserialize
    except ImportError as error:
        raise SetupError('Adapters cannot be read here: run `pip install "agentflow[local]"`.') from error
    file = directory / TENSOR_FILE
    read: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = deserialize
    try:
        return {name: _float32(file, name, tensor) for name, tensor in read(file.read_bytes())}
    except OSError as error:
        raise _damaged(file, error.strerror or str(error)) from error
    except SafetensorError as error:
        raise _damaged(file, str(error)) from error


def _float32(file: Path, name: str, tensor: Mapping[str, Any]) -> "Matrix":
    import numpy as np

    dtype, data = tensor["dtype"], tensor["data"]
    if dtype == "BF16":  # the upper half of a float32, which numpy has no name for
        flat = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    elif dtype in _NUMPY_NAMES:
        flat = np.frombuffer(data, _NUMPY_NAMES[dtype]).astype(np.float32)
    else:
        raise _damaged(file, f"{name} has the type {dtype} in place of F32, BF16 or F16")
    return flat.reshape(tensor["shape"])


def _pair(directory: Path, config: _Config, module: str, sides: "Mapping[str, Matrix]") -> LoraPair:
    rank = config.rank(module)
    if sides.keys() != {"A", "B"}:
        raise _damaged(directory / TENSOR_FILE, f"{module} has only one of lora_A and lora_B")
    a, b = sides["A"], sides["B"]
    if a.ndim != 2 or b.ndim != 2 or a.shape[0] != rank or b.shape[1] != rank:
        shapes = f"lora_A {list(a.shape)} and lora_B {list(b.shape)}"
        raise _damaged(directory / TENSOR_FILE, f"{module} has {shapes}, where {CONFIG_FILE} says rank {rank}")
    return LoraPair(a, b, config.scale(module))


def _by_pattern(patterns: Mapping[str, float], module: str, default: float) -> float:
    """Return the value of the first pattern that the end of the module's name matches, as PEFT chooses."""
    for pattern, value in patterns.items():
        if re.fullmatch(rf"(?:.*\.)?(?:{pattern})", module):
            return value
    return default


def _meaning(tensor: str) -> str:
    """Say what a tensor is that is no half of a product."""
    if ".lora_embedding_" in tensor:
        return f"an adapter of the embeddings ({tensor})"
    if ".lora_magnitude_vector" in tensor:
        return "DoRA"
    return f"a tensor beside the products ({tensor})"


def _inapplicable(directory: Path, what: str) -> ConfigError:
    return ConfigError(
        f"The adapter in {directory} uses {what}, which the embedded engine cannot apply: train it without, or serve "
        "it with vLLM."
    )


def _damaged(file: Path, why: str) -> ConfigError:
    return ConfigError(f"{file} cannot be used ({why.rstrip('.')}): save or add the adapter again.")
