"""Where two trajectories of one question part ways, what was the same until there, and what each came to."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from graph.errors import ConfigError
from graph.trace import Trajectory
from graph.traces.call_totals import CallTotals
from graph.traces.planner_difference import PlannerDifference, planner_difference
from graph.traces.steps import Kind, Step, standalone_question, steps_of


@dataclass(frozen=True)
class Point:
    """A step that is not the same in both."""

    kind: Kind
    turn: int
    """From 0; -1 before the first turn and after the last."""
    a: Any
    """Plain JSON; None where this one has no such step."""
    b: Any


@dataclass(frozen=True)
class Setting:
    """Something that both were run with, and not alike."""

    name: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Summary:
    """What a trajectory came to."""

    id: str
    turns: int
    tools: Mapping[str, int]
    """Calls by tool."""
    stop: str | None
    error: str | None
    answer: str | None
    reward: float | None
    reward_source: str | None
    prompt_tokens: float | None
    """Sums of the calls that say so; None where none does."""
    cached_tokens: float | None
    completion_tokens: float | None
    seconds: float | None
    policies: Sequence[str]


@dataclass(frozen=True)
class Difference:
    """How two trajectories of one question differ."""

    analysed: bool
    """Whether both hold an analysis."""
    equal_turns: int
    """Turns from the start of which every step is the same."""
    first: Point | None
    """Where they part; None where all steps are the same."""
    first_in_turns: Point | None
    """The first difference within the turns, where `first` is the analysis; otherwise None."""
    later: Sequence[tuple[Kind, int]]
    """The other steps that differ, in order."""
    worded: Sequence[Point]
    """Steps that are the same, and worded differently: reasons, contexts, remarks, the solution's text."""
    planner: PlannerDifference | None
    settings: Sequence[Setting]
    a: Summary
    b: Summary

    @property
    def equal(self) -> bool:
        """Whether nothing differs but settings, times and rewards."""
        return self.first is None and not self.worded and self.planner is None

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain JSON."""
        found: dict[str, Any] = to_jsonable_python({"equal": self.equal, **asdict(self)}, inf_nan_mode="null")
        return found


def difference(one: Trajectory, other: Trajectory) -> Difference:
    """Compare two trajectories of one question.

    Raises:
        ConfigError: they are of different questions.
    """
    if not same_question(one, other):
        raise ConfigError(
            f"{one.id} and {other.id} answer different questions: compare two trajectories of one question."
        )
    pairs = list(_aligned(one, other))
    parted = [Point(a.kind, a.turn, a.decided, b.decided) for a, b in pairs if a.decided != b.decided]
    first = parted[0] if parted else None
    in_turns = [point for point in parted if point.turn >= 0]
    turns = max(len(one.turns), len(other.turns))
    return Difference(
        analysed=one.analysis is not None and other.analysis is not None,
        equal_turns=in_turns[0].turn if in_turns else turns,
        first=first,
        first_in_turns=in_turns[0] if first and first.kind == "analysis" and in_turns else None,
        later=[(point.kind, point.turn) for point in parted[1:]],
        worded=[
            Point(a.kind, a.turn, a.worded, b.worded)
            for a, b in pairs
            if a.decided == b.decided and a.worded != b.worded
        ],
        planner=planner_difference(one, other),
        settings=list(_settings(one, other)),
        a=summary(one),
        b=summary(other),
    )


def same_question(one: Trajectory, other: Trajectory) -> bool:
    """Whether both answer one question: as it was rewritten to stand alone, or as it was asked in one conversation."""
    if _words(standalone_question(one)) == _words(standalone_question(other)):
        return True
    return _words(one.question) == _words(other.question) and one.history == other.history


def summary(trajectory: Trajectory) -> Summary:
    """Sum a trajectory up. Turns that a fork took over are part of it."""
    totals = CallTotals()
    for call in trajectory.calls:
        totals.add(call, None)
    return Summary(
        id=trajectory.id,
        turns=len(trajectory.turns),
        tools=Counter(result.tool for turn in trajectory.turns for result in turn.observations),
        stop=trajectory.stop,
        error=trajectory.error,
        answer=trajectory.answer,
        reward=trajectory.reward,
        reward_source=trajectory.reward_source,
        prompt_tokens=totals.prompt.value,
        cached_tokens=totals.cached.value,
        completion_tokens=totals.completion.value,
        seconds=trajectory.seconds,
        policies=trajectory.policies,
    )


def _words(text: str) -> list[str]:
    return text.split()


def _aligned(one: Trajectory, other: Trajectory) -> Iterator[tuple[Step, Step]]:
    """Yield the steps of both in pairs, in the order of the flow; the step that one lacks is an empty one."""
    sides = [{(step.kind, step.turn): step for step in steps_of(side)} for side in (one, other)]
    longer = one if len(one.turns) >= len(other.turns) else other
    for step in steps_of(longer):
        key, empty = (step.kind, step.turn), Step(step.kind, step.turn, None)
        a, b = (side.get(key, empty) for side in sides)
        if step.kind != "question":
            yield a, b


def _settings(one: Trajectory, other: Trajectory) -> Iterator[Setting]:
    """Yield what both know of how they were run and differs."""
    known = [_run_with(side) for side in (one, other)]
    for name in dict.fromkeys([*known[0], *known[1]]):
        a, b = (side.get(name) for side in known)
        if a is not None and b is not None and a != b:
            yield Setting(name, a, b)


def _run_with(trajectory: Trajectory) -> dict[str, Any]:
    found: dict[str, Any] = {
        "policy": " + ".join(trajectory.policies) or None,
        "config_hash": trajectory.config_hash,
        "tools": list(trajectory.tools) or None,
    }
    found |= {f"prompts.{role}": digest for role, digest in trajectory.prompts.items()}
    for role in dict.fromkeys(call.role for call in trajectory.calls):
        calls = trajectory.calls_of(role)
        found[f"{role}.model"] = _one_or_all([call.model for call in calls if call.model is not None])
        sampled = [call.sampling for call in calls if call.sampling is not None]
        for name in sorted({name for sampling in sampled for name in sampling}):
            found[f"{role}.{name}"] = _one_or_all([sampling.get(name) for sampling in sampled])
    return found | {f"versions.{package}": version for package, version in trajectory.versions.items()}


def _one_or_all(values: Sequence[Any]) -> Any:
    """Return the value that all calls share, or the different ones in order; None for none."""
    different: list[Any] = []
    for value in values:
        if value not in different:
            different.append(value)
    return different if len(different) > 1 else next(iter(different), None)
