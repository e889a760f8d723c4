"""When each part of a run took place, in nanoseconds since 1970.

A trace knows when each model call was sent and how long calls took. The rest follows from these rules:

- A call whose time is not known begins at the last known time: the latest end of what came before it; before the first
  part that is when the run was created, else when its first call was sent.
- What has no known length has none.
- The tool calls of a turn run side by side: they begin when its executor's call has ended.
- A turn, and the run, reach from the first beginning within them to the last end. A turn without parts stands at the
  last known time.
- A trace that knows no time at all begins at 0, which no run did.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from graph.records import Observation
from graph.trace import TracedCall, Trajectory

_SECOND: Final = 10**9
_LATEST: Final = 2**63 - 1
"""What collectors can store, in the year 2262."""
_BEFORE_TOOLS: Final = frozenset({"planner", "executor"})
_Calls: TypeAlias = list[tuple[int, TracedCall]]
"""Calls with their indexes in the trajectory."""


@dataclass(frozen=True)
class Interval:
    """From `start` to `end`, which may be the same."""

    start: int
    end: int


@dataclass(frozen=True)
class Timeline:
    """The intervals of a trajectory's parts, in the order of the trajectory."""

    run: Interval
    turns: tuple[Interval, ...]
    calls: tuple[Interval, ...]
    tools: tuple[tuple[Interval, ...], ...]
    """By turn and observation."""


class _Clock:
    def __init__(self, now: int) -> None:
        self.now = now
        """The last known time."""

    def place(self, start: int | None, seconds: float | None) -> Interval:
        begin = self.now if start is None else start
        length = round(seconds * _SECOND) if seconds is not None and 0 < seconds < _LATEST / _SECOND else 0
        interval = Interval(begin, begin + length if begin + length <= _LATEST else begin)
        self.now = max(self.now, interval.end)
        return interval


def timeline_of(trajectory: Trajectory) -> Timeline:
    """Return when each part of the trajectory took place."""
    created = _nanoseconds(trajectory.created)
    sent = [time for call in trajectory.calls if (time := _nanoseconds(call.at)) is not None]
    clock = _Clock(created if created is not None else min(sent, default=0))
    calls: dict[int, Interval] = {}
    before: _Calls = []
    after: _Calls = []
    turns: list[_Calls] = [[] for _ in trajectory.turns]
    for index, call in enumerate(trajectory.calls):
        where = turns[call.turn] if call.turn >= 0 else after if call.role == "generator" else before
        where.append((index, call))
    calls |= _place_calls(clock, before)
    spans, tools = [], []
    for turn, its_calls in zip(trajectory.turns, turns, strict=True):
        placed, placed_tools = _place_turn(clock, its_calls, turn.observations)
        calls |= placed
        tools.append(placed_tools)
        spans.append(_around([*placed.values(), *placed_tools]) or Interval(clock.now, clock.now))
    calls |= _place_calls(clock, after)
    known = [Interval(created, created)] if created is not None else []
    whole = _around([*known, *calls.values(), *spans]) or Interval(clock.now, clock.now)
    return Timeline(whole, tuple(spans), tuple(calls[index] for index in range(len(calls))), tuple(tools))


def _place_turn(
    clock: _Clock, calls: _Calls, observations: tuple[Observation, ...]
) -> tuple[dict[int, Interval], tuple[Interval, ...]]:
    placed = _place_calls(clock, [(index, call) for index, call in calls if call.role in _BEFORE_TOOLS])
    executed = [placed[index].end for index, call in calls if call.role == "executor"]
    start = max(executed, default=clock.now)
    tools = tuple(clock.place(start, observation.seconds) for observation in observations)
    placed |= _place_calls(clock, [(index, call) for index, call in calls if call.role not in _BEFORE_TOOLS])
    return placed, tools


def _place_calls(clock: _Clock, calls: _Calls) -> dict[int, Interval]:
    return {index: clock.place(_nanoseconds(call.at), call.seconds) for index, call in calls}


def _around(parts: list[Interval]) -> Interval | None:
    if not parts:
        return None
    return Interval(min(part.start for part in parts), max(part.end for part in parts))


def _nanoseconds(at: float | None) -> int | None:
    """Return a Unix time; None where it is not known, or none that a collector could store."""
    return round(at * _SECOND) if at is not None and 0 < at < _LATEST / _SECOND else None
