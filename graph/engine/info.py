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


def slot_count(*, with_adapter: bool) -> int:
    """Slots of an engine: one for each role, or for the planner alone."""
    return 1 if with_adapter else len(ROLE_SLOTS)


@dataclass(frozen=True)
class EngineInfo:
    """A running engine that answered its health check."""

    base_url: str
    """Of its OpenAI-compatible interface, with the `/v1`."""
    api_key: str = field(repr=False)
    """Random, new at each start: keeps other users of this machine out of the loopback port."""
    model: str
    """The name it serves the model by: the model's own, or its adapter's."""
    base: str | None
    """The model that its adapter is applied to; None without one."""
    pid: int
    port: int
    started: float
    """Seconds since the epoch."""
    threads: int
    context_per_slot: int
    """Tokens."""
    idle_seconds: float
    """It stops after this long without a request."""

    @property
    def slots(self) -> int:
        """Calls that it works on at once. An adapter is the planner's, which needs one."""
        return slot_count(with_adapter=self.base is not None)
