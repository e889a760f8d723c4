"""What a running tool may know of the run it works for."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from graph.deadline import Deadline
from graph.records import ModelCall


@dataclass
class ToolScope:
    """Set around every tool call by the tools node."""

    deadline: Deadline
    turn: int
    on_token: Callable[[str], None] | None = None
    calls: list[ModelCall] = field(default_factory=list)
    """A tool that calls a model adds the record here, and it becomes part of the state."""


current_scope: ContextVar[ToolScope] = ContextVar("current_scope")
