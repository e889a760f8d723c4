"""The `[serve]` table of agentflow.toml: how `agentflow serve` starts vLLM."""

import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError


class ServeSettings(BaseModel):
    """How to serve a model with vLLM."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    python: Path | None = None
    """Interpreter of the environment that vLLM is installed in. None for `.venv-vllm/bin/python` (which `make vllm-cpu`
    makes) where it is there, else for this one if it has vLLM."""
    name: str = Field("planner", min_length=1)
    """The name by which calls ask for the base model."""
    host: str = "127.0.0.1"
    port: int | None = Field(None, ge=0, le=65535)
    """0 for a free one. None: `agentflow serve` takes 8000."""
    api_key_env: str | None = None
    """Environment variable that holds the key which calls must bring; None for VLLM_API_KEY where it is set, else for a
    server without a key."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_model_len: int | None = Field(None, ge=1)
    """Tokens of a prompt and its completion together; None for the model's own limit."""
    max_num_seqs: int = Field(32, ge=1)
    """Calls that are computed at the same time."""
    max_lora_rank: Literal[8, 16, 32, 64, 128, 256] = 16
    """The largest rank of an adapter that can be loaded."""
    enforce_eager: bool = False
    """Skip compilation: starts faster and computes slower."""
    cpu_cache_gib: int = Field(1, ge=1)
    """Memory of the prefix cache where vLLM runs on the CPU."""
    full_weights: bool = False
    """Serve vLLM's development endpoints too, by which policies of full weights are loaded. Whoever reaches the server
    can use them."""
    flags: tuple[str, ...] = ()
    """Further flags of `vllm serve`; they come last and win."""
    start_timeout: float = Field(600.0, gt=0)
    """Seconds until the server must be healthy."""

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_]\w*", value, re.ASCII):
            # The message of this type does not repeat the input, which may be a key.
            raise PydanticCustomError("hidden_input", "it takes the name of an environment variable that holds the key")
        return value

    @field_validator("python")
    @classmethod
    def _at_home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else None
