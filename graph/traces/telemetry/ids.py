"""Ids of traces and spans that follow from the trajectory: who sends one twice sends the same spans."""

from hashlib import sha256
from uuid import UUID

from opentelemetry.sdk.trace.id_generator import IdGenerator

ROOT = "run"
"""Path of a trajectory's root span."""


def trace_id(trajectory: str) -> int:
    """Return the id itself where it is a UUID, as ours are, else the beginning of its hash."""
    try:
        number = UUID(trajectory).int
    except ValueError:
        number = 0
    return number or _hashed(trajectory, 16)  # OpenTelemetry takes no id of zeros


def span_id(trajectory: str, path: str) -> int:
    """Return the id of the span at `path` (`run`, `turn/0`, `call/3`, `turn/0/tool/1`)."""
    return _hashed(f"{trajectory}/{path}", 8) or 1


def _hashed(text: str, size: int) -> int:
    return int.from_bytes(sha256(text.encode("utf-8", "replace")).digest()[:size], "big")


class NextIds(IdGenerator):
    """Hands out the ids that were set for the next span."""

    def __init__(self) -> None:
        self.trace = 0
        self.span = 0

    def generate_span_id(self) -> int:
        """Return the span's id."""
        return self.span

    def generate_trace_id(self) -> int:
        """Return the trace's id."""
        return self.trace
