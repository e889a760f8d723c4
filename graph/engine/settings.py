"""The `[local]` table of agentflow.toml."""

from pydantic import BaseModel, ConfigDict, Field


class LocalSettings(BaseModel):
    """The embedded engine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "1.5b"
    """`1.5b`, `0.5b` (for small machines), or the path of a GGUF file."""
    threads: int | None = Field(None, ge=1)
    """None for one fewer than the cores, at least one."""
    context_per_slot: int = Field(4096, ge=512)
    """Tokens of context that each role has."""
    idle_seconds: float = Field(900.0, gt=0)
    """The engine stops after this long without a request."""
