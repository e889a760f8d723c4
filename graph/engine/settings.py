"""The `[local]` table of agentflow.toml. Free of heavy imports, as the configuration reads it at every start."""

from pydantic import BaseModel, ConfigDict, Field


class LocalSettings(BaseModel):
    """The embedded engine. Engines whose model, threads or context differ run side by side."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    model: str = Field("1.5b", min_length=1)
    """`1.5b` or `0.5b` (Qwen2.5-Coder-Instruct, fetched by `agentflow setup`), or the path of a GGUF file."""
    threads: int | None = Field(None, ge=1)
    """Threads that compute; None for one fewer than the cores (at least one). More than there are idle cores is many
    times slower, not faster."""
    context_per_slot: int = Field(4096, ge=512)
    """Tokens of prompt and answer that one call may hold. Every role has a slot of its own, so memory grows with six
    times this."""
    idle_seconds: float = Field(900.0, gt=0)
    """The engine stops after this long without a request."""
