"""What a run tells its caller while it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from graph.records import Record


class EventKind(StrEnum):
    """Kinds of events, with what `data` holds."""

    RUN = "run"
    """The run has started or goes on: `{"id", "question", "resumed"}`."""
    NOTICE = "notice"
    """Something that takes long or that the user should know: `{"text"}`."""
    MODULE = "module"
    """A module starts: `{"module"}`."""
    TOKEN = "token"  # noqa: S105 - a model's token, not a secret
    """A piece of a model's text: `{"module", "text"}`."""
    CALL = "call"
    """A model call is done: a ModelCall without its token ids."""
    ANALYSIS = "analysis"
    PLAN = "plan"
    COMMAND = "command"
    TOOL = "tool"
    """A tool call starts: `{"index", "tool", "arguments"}`."""
    OBSERVATION = "observation"
    """A tool call is done: an Observation, with its `index`."""
    VERDICT = "verdict"
    FAULT = "fault"
    ANSWER = "answer"
    DONE = "done"
    """The run has ended: `{"id", "stop", "answer", "solution", "seconds", "error"}`."""


@dataclass(frozen=True)
class Event:
    """One event."""

    kind: EventKind
    turn: int
    """0-based; -1 outside the turns."""
    data: Mapping[str, Any]

    @classmethod
    def of(cls, kind: EventKind, data: Record | Mapping[str, Any], *, turn: int = -1) -> Self:
        """Make an event of a record or of plain fields."""
        return cls(kind, turn, data.model_dump(mode="json") if isinstance(data, Record) else data)

    def as_json(self) -> dict[str, Any]:
        """Return the event as one flat JSON object."""
        return {"event": self.kind.value, "turn": self.turn, **self.data}
