"""What many trajectories have in common, in numbers: one pass over them, and constant memory however many they are.

Nothing that is unknown counts as 0: every sum says how many it is of. A fork's trajectory repeats the turns that it
took over from its parent; their calls, tools and faults are counted where they happened, in the parent's.
docs/traces.md defines every number.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from graph.records import Observation, StopReason
from graph.trace import TracedCall, Trajectory
from graph.traces.call_totals import CallTotals
from graph.traces.prices import Prices
from graph.traces.rewards import Rewards
from graph.traces.spread import Spread

By = Literal["policy", "dataset", "source", "stop", "tool", "none"]

FAULTY_MODULES = ("planner", "executor", "verifier")
"""Modules whose output is recorded as a fault where it cannot be used."""
NO_TOOL = "(no tool)"


@dataclass
class ToolTotals:
    """Calls of a tool, or of all."""

    calls: int = 0
    errors: int = 0
    timeouts: int = 0
    cached: int = 0
    """Answered from the cache of results."""
    seconds: Spread = field(default_factory=Spread)
    """Of calls that were not."""

    def add(self, result: Observation) -> None:
        """Take a call."""
        self.calls += 1
        self.errors += result.status == "error"
        self.timeouts += result.status == "timeout"
        self.cached += result.cached
        self.seconds.add(None if result.cached else result.seconds)

    @property
    def error_rate(self) -> float | None:
        """The share of calls that ended with an error or a timeout; None without calls."""
        return (self.errors + self.timeouts) / self.calls if self.calls else None

    def as_json(self) -> dict[str, Any]:
        """Return everything."""
        return {
            "calls": self.calls,
            "errors": self.errors,
            "timeouts": self.timeouts,
            "error_rate": self.error_rate,
            "cached": self.cached,
            "seconds": self.seconds.as_json(),
        }


class Statistics:
    """The numbers of some trajectories."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self.trajectories = 0
        self.stops: Counter[StopReason | None] = Counter()
        self.rewards = Rewards()
        self.seconds = Spread()
        self.roles: dict[str, CallTotals] = {}
        self.calls = CallTotals()
        """Of all roles."""
        self.tools: dict[str, ToolTotals] = {}
        self.tool_calls = ToolTotals()
        self.faults: Counter[str] = Counter()
        """Outputs that could not be used, by module."""
        self._lengths: Counter[int] = Counter()

    def add(self, trajectory: Trajectory) -> None:
        """Take a trajectory; nothing of it is kept."""
        self.trajectories += 1
        self.stops[trajectory.stop] += 1
        if trajectory.reward is not None:
            self.rewards.add(trajectory.reward, trajectory.reward_source or "")
        self.seconds.add(trajectory.seconds)
        self._lengths[len(trajectory.turns)] += 1
        for call in own_calls(trajectory):
            cost = self._prices.cost(call)
            self.calls.add(call, cost)
            self.roles.setdefault(call.role, CallTotals()).add(call, cost)
        kept = trajectory.parent_turns if trajectory.parent is not None else None
        for turn in trajectory.turns[kept or 0 :]:
            self.faults.update(fault.module for fault in turn.faults)
            for result in turn.observations:
                self.tool_calls.add(result)
                self.tools.setdefault(result.tool, ToolTotals()).add(result)

    @property
    def failures(self) -> int:
        """Trajectories that failed."""
        return self.stops[StopReason.FAILED]

    @property
    def turns(self) -> tuple[float, float, int] | None:
        """Mean, median and most turns of a trajectory, those taken over by a fork included; None without any."""
        if not self.trajectories:
            return None
        total = sum(length * count for length, count in self._lengths.items())
        middle = self._length_at((self.trajectories - 1) // 2), self._length_at(self.trajectories // 2)
        return total / self.trajectories, sum(middle) / 2, max(self._lengths)

    def _length_at(self, place: int) -> int:
        """Return the turns of the trajectory at a place, from 0, of those ordered by their turns."""
        lengths = sorted(self._lengths)
        ends = list(accumulate(self._lengths[length] for length in lengths))
        return lengths[bisect_right(ends, place)]

    def fault_rate(self, module: str) -> float | None:
        """Return the share of a module's calls whose output could not be used; None where no call is recorded."""
        calls = self.roles[module].calls if module in self.roles else 0
        return self.faults[module] / calls if calls else None

    def as_json(self) -> dict[str, Any]:
        """Return everything, by the names that docs/traces.md defines."""
        mean, median, most = self.turns or (None, None, None)
        return {
            "trajectories": self.trajectories,
            "stops": {stop or "unknown": count for stop, count in sorted(self.stops.items(), key=_by_stop)},
            "failures": self.failures,
            "reward": self.rewards.as_json(),
            "turns": {"mean": mean, "median": median, "max": most},
            "seconds": self.seconds.as_json(),
            "tool_calls": self.tool_calls.as_json(),
            "tools": {
                name: {"share": tool.calls / self.tool_calls.calls, **tool.as_json()} for name, tool in self.tool_mix()
            },
            "unusable_outputs": {
                module: {"faults": self.faults[module], "rate": self.fault_rate(module)} for module in FAULTY_MODULES
            },
            "calls": self.calls.as_json(),
            "roles": {role: totals.as_json() for role, totals in self.roles.items()},
        }

    def tool_mix(self) -> Sequence[tuple[str, ToolTotals]]:
        """Return the tools that were called, the most used first."""
        return sorted(self.tools.items(), key=lambda item: (-item[1].calls, item[0]))


class GroupedStatistics:
    """Statistics of trajectories by something that they share."""

    def __init__(self, by: By, prices: Prices) -> None:
        self.by = by
        self._prices = prices
        self._groups: dict[str | None, Statistics] = {}

    def add(self, trajectory: Trajectory) -> None:
        """Take a trajectory."""
        for name in group_names(trajectory, self.by):
            if name not in self._groups:
                self._groups[name] = Statistics(self._prices)
            self._groups[name].add(trajectory)

    def groups(self) -> Iterator[tuple[str | None, Statistics]]:
        """Yield the groups in the order of their names, numbers by their value; None, the unknown, comes last."""
        for name in sorted(self._groups, key=_natural):
            yield name, self._groups[name]

    def as_json(self) -> dict[str, Any]:
        """Return all groups; sums beyond the largest number that JSON holds are None."""
        groups = [{"group": name, **found.as_json()} for name, found in self.groups()]
        return {"by": self.by, "groups": to_jsonable_python(groups, inf_nan_mode="null")}


def group_names(trajectory: Trajectory, by: By) -> Sequence[str | None]:
    """Return the groups that a trajectory belongs to: one, or by tool each that it called. None is unknown.

    One that several versions of the planner planned, because another one was promoted meanwhile, is in a group of its
    own, such as `planner@v1 + planner@v2`.
    """
    match by:
        case "policy":
            return [" + ".join(sorted(trajectory.policies, key=_natural)) or None]
        case "dataset":
            return [trajectory.dataset]
        case "source":
            return [trajectory.source]
        case "stop":
            return [trajectory.stop]
        case "tool":
            return trajectory.used_tools or [NO_TOOL]
        case "none":
            return ["all"]


def own_calls(trajectory: Trajectory) -> Sequence[TracedCall]:
    """Return the calls that were made for this trajectory, without those that a fork took over from its parent."""
    kept = trajectory.parent_turns
    if trajectory.parent is None or kept is None:
        return trajectory.calls
    return [call for call in trajectory.calls if call.role != "analyzer" and not 0 <= call.turn < kept]


def _by_stop(item: tuple[StopReason | None, int]) -> int:
    stops = list(StopReason)
    return len(stops) if item[0] is None else stops.index(item[0])


def _natural(name: str | None) -> tuple[bool, list[tuple[int, str]]]:
    parts = re.split(r"(\d+)", name or "")
    return name is None, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
