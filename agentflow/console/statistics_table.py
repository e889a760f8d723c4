"""Statistics of trajectories, for people and for programs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table
from rich.text import Text

from agentflow.console.calls_table import UNKNOWN, Group, count, duration, money, print_calls
from agentflow.console.terminal import PlainConsole
from agentflow.console.text import one_line
from graph.records import StopReason
from graph.traces.statistics import FAULTY_MODULES, GroupedStatistics, Statistics

_GAP = 2
_UNUSABLE = {"planner": "unusable plans", "executor": "unusable commands", "verifier": "unusable verdicts"}


def print_statistics(grouped: GroupedStatistics, *, as_json: bool) -> None:
    """Print tables on a terminal, and elsewhere a line with group, name and value for each number; or one object."""
    if as_json:
        print(json.dumps(grouped.as_json()))
        return
    console = PlainConsole()
    if not console.live:
        for group in grouped.as_json()["groups"]:
            name = _name(group.pop("group"))
            for path, value in _flat(group):
                print(f"{name}\t{path}\t{UNKNOWN if value is None else value}")
        return
    groups = [Group(_name(name), found.roles, found.calls) for name, found in grouped.groups()]
    columns = [_cells(found) for _, found in grouped.groups()]
    _print_overview(console, [group.name for group in groups], columns)
    console.print()
    print_calls(console, groups if grouped.by != "none" else [replace(group, name="") for group in groups])


def _print_overview(console: PlainConsole, names: Sequence[str], columns: Sequence[Mapping[str, str]]) -> None:
    """Print a column for each group; what does not fit beside the others comes below them."""
    labels = _merged(columns)
    head = max(map(len, labels))
    widths = [
        max(len(name), *(len(cell) for cell in column.values())) for name, column in zip(names, columns, strict=True)
    ]
    start = 0
    while start < len(names):
        room, end = console.width - head, start
        while end < len(names) and (end == start or room >= widths[end] + _GAP):
            room -= widths[end] + _GAP
            end += 1
        if start:
            console.print()
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        table.add_column("", no_wrap=True)
        for name in names[start:end]:
            table.add_column(Text(name), justify="right", no_wrap=True, overflow="ellipsis")
        for label in labels:
            cells = [column.get(label, "") for column in columns[start:end]]
            table.add_row(Text(label, style="" if label.startswith(" ") else "cyan"), *map(Text, cells))
        console.print(table)
        start = end


def _cells(found: Statistics) -> dict[str, str]:
    """Return what one column says, by label."""
    cells = {"trajectories": count(found.trajectories)}
    for stop in (*StopReason, None):
        if stop == StopReason.FAILED or found.stops[stop]:
            cells[f"  {stop or 'unknown ending'}"] = _share(found.stops[stop], found.trajectories)
    rewards = found.rewards
    cells |= {"scored": count(rewards.count), "mean reward": _decimal(rewards.mean)}
    low, high = rewards.interval or (None, None)
    cells["  95 % interval"] = UNKNOWN if low is None else f"{_decimal(low)} to {_decimal(high)}"
    mean, median, most = found.turns or (None, None, None)
    cells |= {"turns, mean": _decimal(mean, 2), "  median": f"{median:g}", "  most": f"{most}"}
    p50, p95 = found.seconds.percentiles(50, 95)
    cells |= {"seconds, mean": duration(found.seconds.mean), "  p50": duration(p50), "  p95": duration(p95)}
    whole = found.tool_calls
    cells["tool calls"] = count(whole.calls)
    cells |= {f"  {one_line(name)}": _share(tool.calls, whole.calls) for name, tool in found.tool_mix()}
    cells["call errors"] = _share(whole.errors + whole.timeouts, whole.calls)
    cells["cached results"] = _share(whole.cached, whole.calls)
    for module in FAULTY_MODULES:
        calls = found.roles[module].calls if module in found.roles else 0
        cells[_UNUSABLE[module]] = _share(found.faults[module], calls)
    return cells | {"cost": money(found.calls.cost.value, whole=found.calls.cost.known == found.calls.calls)}


def _merged(columns: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the labels of all columns; those that some lack stand where the others have them."""
    merged: list[str] = []
    for column in columns:
        place = 0
        for label in column:
            if label in merged:
                place = merged.index(label) + 1
            else:
                merged.insert(place, label)
                place += 1
    return merged


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{one_line(name)}" if path else one_line(name))
    else:
        yield path, value


def _name(group: str | None) -> str:
    return "unknown" if group is None else one_line(group)


def _share(part: int, whole: int) -> str:
    return f"{count(part)} ({100 * part / whole:.1f} %)" if whole else UNKNOWN if not part else count(part)


def _decimal(value: float | None, places: int = 3) -> str:
    return UNKNOWN if value is None else f"{value:.{places}f}"
