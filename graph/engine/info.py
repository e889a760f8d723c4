"""What callers learn about a running engine."""

from dataclasses import dataclass, field

ROLE_SLOTS: dict[str, int] = {
    "analyzer": 0,
    "planner": 1,
    "executor": 2,
    "verifier": 3,
    "generator": 4,
    "generate": 5,
}
"""The engine slot of each model role (`generate` is the tool's). A role that keeps to its slot, by `id_slot` in the
request's body, finds the unchanging part of its prompt in the cache from its second call on."""


@dataclass(frozen=True)
class EngineInfo:
    """A running engine that answered its health check."""

    base_url: str
    """Of its OpenAI-compatible interface, with the `/v1`."""
    api_key: str = field(repr=False)
    """Random, new at each start: keeps other users of this machine out of the loopback port."""
    model: str
    """The name it serves the model by."""
    pid: int
    port: int
    started: float
    """Seconds since the epoch."""
    threads: int
    context_per_slot: int
    """Tokens."""
    idle_seconds: float
    """It stops after this long without a request."""
