"""A place in a trajectory: before its turns, one of them, or the answer after them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from graph.errors import ConfigError
from graph.prompt import hash_messages
from graph.trace import TracedCall, Trajectory

ANSWER: Final = "answer"
_AFTER = "generator"


@dataclass(frozen=True)
class Place:
    """Where in a trajectory."""

    turn: int | Literal["answer"]
    """From 1; 0 is what comes before the first."""

    @classmethod
    def of(cls, text: str, trajectory: Trajectory) -> Self:
        """Read a place: a number, or `answer`.

        Raises:
            ConfigError: it is neither, or the trajectory has no such turn.
        """
        turns = len(trajectory.turns)
        if text == ANSWER:
            return cls(ANSWER)
        if text.isascii() and text.isdigit() and len(text) < 7 and int(text) <= turns:
            return cls(int(text))
        last = "no turns" if not turns else "turn 1" if turns == 1 else f"turns 1 to {turns}"
        raise ConfigError(
            f"{trajectory.id} has {last}, not {text!r}: give one of them, 0 for what comes before, or {ANSWER}."
        )

    def holds(self, call: TracedCall) -> bool:
        """Whether a call was made here."""
        if isinstance(self.turn, int) and self.turn > 0:
            return call.turn == self.turn - 1
        return call.turn < 0 and (call.role == _AFTER) == (self.turn == ANSWER)

    def as_json(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return what the trajectory has here, as plain JSON."""
        calls = [call for call in trajectory.calls if self.holds(call)]
        if self.turn == ANSWER:
            found = trajectory.model_dump(mode="json", include={"solution", "answer", "stop", "error"})
        elif self.turn == 0:
            found = trajectory.model_dump(mode="json", include={"question", "history", "analysis"})
        else:
            found = trajectory.turns[self.turn - 1].model_dump(mode="json")
        return {"turn": self.turn, **found, "calls": raw_calls(calls)}


def raw_calls(calls: Sequence[TracedCall]) -> list[dict[str, Any]]:
    """Return calls as plain JSON, each with `messages_match`: whether its messages have the hash of what was sent."""
    return [{**call.model_dump(mode="json"), "messages_match": messages_match(call)} for call in calls]


def messages_match(call: TracedCall) -> bool | None:
    """Whether the messages are those that were sent, by their hash; None where one of the two is missing."""
    if call.messages is None or call.prompt_hash is None:
        return None
    return hash_messages(call.messages) == call.prompt_hash
