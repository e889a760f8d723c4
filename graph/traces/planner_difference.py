"""Where the planner's calls of two trajectories differ first: already in what it was shown, or in what was sampled."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from graph.trace import TracedCall, Trajectory

PLANNER = "planner"
T = TypeVar("T")
By = Literal["ids", "hash", "messages"]


@dataclass(frozen=True)
class PlannerDifference:
    """The first pair of planner calls that are not the same."""

    turn: int
    """From 0; all calls before it are the same, as far as was recorded."""
    same_prompt: bool | None
    """None: neither ids nor hashes nor messages were recorded in both."""
    prompt_by: By | None
    """By what the prompts were compared: token ids, where both have them."""
    same_messages: bool | None
    """Whether the hashes agree; with other ids, tokenizer or chat template differ. None: unknown."""
    prompt_position: int | None
    """Of the first prompt id that differs; None where ids are the same or unknown."""
    same_sample: bool
    """By ids where both have them, else by text."""
    sample_by: Literal["ids", "text"]
    position: int | None
    """Of the first completion id that differs, or else of the first character; None where the samples are the same."""
    ids: tuple[int | None, int | None]
    """The ids there; None where a completion has ended, or ids are unknown."""
    logprobs: tuple[float | None, float | None]
    """Their log-probabilities, where they were recorded."""


def planner_difference(one: Trajectory, other: Trajectory) -> PlannerDifference | None:
    """Return the first difference; None where all calls that both made are the same, as far as was recorded."""
    for turn in range(min(len(one.turns), len(other.turns))):
        # a turn without a call is one that the user planned: a fork's first
        calls = [[call for call in side.calls_of(PLANNER) if call.turn == turn] for side in (one, other)]
        for a, b in zip(*calls, strict=False):
            found = _compare(a, b)
            if found.same_prompt is False or not found.same_sample:
                return found
    return None


def _compare(a: TracedCall, b: TracedCall) -> PlannerDifference:
    same_prompt, prompt_by = _same_prompt(a, b)
    by_ids = a.completion_ids is not None and b.completion_ids is not None
    written = (a.completion_ids or (), b.completion_ids or ()) if by_ids else (a.text, b.text)
    place = first_difference(*written)
    known = by_ids and place is not None
    return PlannerDifference(
        turn=a.turn,
        same_prompt=same_prompt,
        prompt_by=prompt_by,
        same_messages=_equal(a.prompt_hash, b.prompt_hash),
        prompt_position=first_difference(a.prompt_ids or (), b.prompt_ids or ()) if prompt_by == "ids" else None,
        same_sample=place is None,
        sample_by="ids" if by_ids else "text",
        position=place,
        ids=(_at(a.completion_ids, place), _at(b.completion_ids, place)) if known else (None, None),
        logprobs=(_at(a.logprobs, place), _at(b.logprobs, place)) if known else (None, None),
    )


def first_difference(one: Sequence[object], other: Sequence[object]) -> int | None:
    """Return the position of the first element that differs, the end of the shorter one if it begins the other."""
    if one == other:
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _same_prompt(a: TracedCall, b: TracedCall) -> tuple[bool | None, By | None]:
    if a.prompt_ids is not None and b.prompt_ids is not None:
        return a.prompt_ids == b.prompt_ids, "ids"
    if a.prompt_hash is not None and b.prompt_hash is not None:
        return a.prompt_hash == b.prompt_hash, "hash"
    if a.messages is not None and b.messages is not None:
        return a.messages == b.messages, "messages"
    return None, None


def _equal(one: str | None, other: str | None) -> bool | None:
    return None if one is None or other is None else one == other


def _at(values: Sequence[T] | None, place: int | None) -> T | None:
    return values[place] if values is not None and place is not None and place < len(values) else None
