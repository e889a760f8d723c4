"""Where two trajectories part ways, for people and for programs."""

import json
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from agentflow.console.calls_table import UNKNOWN, count
from agentflow.console.difference_text import both_sides, later, place_name, planner_lines, same_so_far, value_text
from agentflow.console.row import Row
from agentflow.console.terminal import PlainConsole
from agentflow.console.text import clean, one_line, seconds, shorten
from graph.traces.difference import Difference, Point, Summary

_WIDE = 120
_WIDEST = 240


def print_difference(found: Difference, places: tuple[str, str], *, as_json: bool, verbose: bool) -> None:
    """Print both side by side on a wide terminal, else one under the other; or one object.

    `places` name what the two are from.
    """
    if as_json:
        print(json.dumps(found.as_json()))
        return
    console = PlainConsole()
    for label, summary, place in zip("AB", (found.a, found.b), places, strict=True):
        Row(label, summary.id, place).print(console)
    console.print()
    if found.first is None:
        _print_same(console, found, verbose)
    else:
        _print_parting(console, found, found.first, verbose)
    if found.planner:
        lines = "\n".join(planner_lines(found.planner))
        Row("planner", f"its call of turn {found.planner.turn + 1} is the first that differs\n{lines}").print(console)
    settings = {setting.name: (value_text(setting.a), value_text(setting.b)) for setting in found.settings}
    if settings:
        console.print()
        _print_pairs(console, "settings", settings)
    console.print()
    _print_pairs(console, "in the end", _summaries(found.a, found.b))


def _print_same(console: PlainConsole, found: Difference, verbose: bool) -> None:
    if found.equal:
        Row("equal", f"throughout: {same_so_far(found)}", style="green").print(console)
    else:
        only = "words differ" if found.worded else "the planner's tokens differ"
        Row("same", f"{same_so_far(found)}; only {only}").print(console)
        _print_words(console, found.worded, verbose)


def _print_parting(console: PlainConsole, found: Difference, first: Point, verbose: bool) -> None:
    Row("same", same_so_far(found)).print(console)
    before = [point for point in found.worded if 0 <= point.turn <= first.turn or first.turn < 0]
    _print_words(console, before, verbose)
    for point in filter(None, (first, found.first_in_turns)):
        Row("differs", place_name(point.kind, point.turn), style="bold yellow").print(console)
        _print_sides(console, *both_sides(point, whole=verbose))
    if found.later:
        text = later(found.later)
        Row("and then", text if verbose else shorten(text, lines=1, chars=400)).print(console)


def _print_words(console: PlainConsole, points: Sequence[Point], verbose: bool) -> None:
    """Name what is worded differently; show how on request."""
    if not points:
        return
    Row("worded", "differently: " + ", ".join(place_name(point.kind, point.turn) for point in points)).print(console)
    for point in points if verbose else ():
        console.print(Text(place_name(point.kind, point.turn), style="dim"))
        _print_sides(console, _words(point.a), _words(point.b))


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return "\n".join(f"{name}: {value_text(text)}" for name, text in value.items())
    return clean(str(value)) if value else "(nothing)"


def _print_sides(console: PlainConsole, one: str, other: str) -> None:
    if not console.live or console.width < _WIDE:
        Row("A", one).print(console)
        Row("B", other).print(console)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), expand=True, header_style="cyan")
    for label in "AB":
        table.add_column(label, ratio=1, overflow="fold")
    table.add_row(Text(clean(one)), Text(clean(other)))
    console.print(table, width=min(console.width, _WIDEST))


def _print_pairs(console: PlainConsole, title: str, pairs: Mapping[str, tuple[str, str]]) -> None:
    """Print a table of what A and B have by name; elsewhere than on a terminal as lines with tabs."""
    if not console.live:
        for name, (one, other) in {title: ("A", "B"), **pairs}.items():
            print(f"{one_line(name)}\t{one}\t{other}")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(title, no_wrap=True)
    table.add_column("A", overflow="fold")
    table.add_column("B", overflow="fold")
    for name, (one, other) in pairs.items():
        table.add_row(Text(clean(name), style="cyan"), Text(one), Text(other, style="" if one == other else "yellow"))
    console.print(table, width=min(console.width, _WIDEST))


def _summaries(one: Summary, other: Summary) -> dict[str, tuple[str, str]]:
    a, b = _lines(one), _lines(other)
    return {name: (a[name], b[name]) for name in a}


def _lines(found: Summary) -> dict[str, str]:
    tools = [f"{one_line(name)} ×{calls}" for name, calls in found.tools.items()]  # noqa: RUF001 - times
    tokens = {"prompt": found.prompt_tokens, "cached": found.cached_tokens, "written": found.completion_tokens}
    known = [f"{count(number)} {name}" for name, number in tokens.items() if number is not None]
    source = one_line(found.reward_source or "")
    return {
        "turns": str(found.turns),
        "tools": ", ".join(tools) or "none",
        "stop": one_line(found.stop or UNKNOWN),
        "answer": UNKNOWN if found.answer is None else shorten(one_line(found.answer), lines=1, chars=200),
        "reward": UNKNOWN if found.reward is None else f"{found.reward:g} ({source})",
        "tokens": ", ".join(known) or UNKNOWN,
        "seconds": UNKNOWN if found.seconds is None else seconds(found.seconds),
        "policy": " + ".join(map(one_line, found.policies)) or UNKNOWN,
    }
