"""What model calls took, by role: tokens, seconds and cost, in a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import one_line
from graph.traces.call_totals import CallTotals, Tally

UNKNOWN = "–"  # noqa: RUF001 - a dash, as tables have it
_COLUMNS = ("calls", "prompt", "cached", "written", "seconds", "mean", "p50", "p95", "first", "cost")
_ORDER = ("analyzer", "planner", "executor", "verifier", "generator", "generate")


@dataclass(frozen=True)
class Group:
    """The calls of some trajectories."""

    name: str
    """Empty where there is one group."""
    roles: Mapping[str, CallTotals]
    whole: CallTotals
    """Of all roles."""


def print_calls(console: PlainConsole, groups: Sequence[Group]) -> None:
    """Print a row of a table, or a line, for each role of each group, and below what is known of some calls only."""
    groups = [group for group in groups if group.roles]
    if not groups:
        console.print(Text("No model call is recorded.", style="dim"))
        return
    if console.live:
        console.print(_table(groups))
    else:
        for group in groups:
            for role in sorted(group.roles, key=_place):
                label = " ".join(filter(None, [group.name, one_line(role)]))
                console.print(Text(f"{label:<9} {_sentence(group.roles[role])}"), soft_wrap=True)
    for group in groups:
        if note := _note(group.whole):
            console.print(Text(f"{group.name}: {note}" if group.name else note, style="dim"), soft_wrap=True)


def _table(groups: Sequence[Group]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("model calls", no_wrap=True, overflow="ellipsis")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True, overflow="ellipsis")
    for group in groups:
        if group.name:
            table.add_row(Text(group.name, style="cyan"))
        for role in sorted(group.roles, key=_place):
            label = one_line(role)
            table.add_row(*map(Text, [f"  {label}" if group.name else label, *_cells(group.roles[role])]))
    return table


def _sentence(totals: CallTotals) -> str:
    """Say in a line what a table has in many columns."""
    calls, prompt, cached, written, spent, *_ = _cells(totals)
    tokens = f"{prompt} prompt tokens, {cached} of them cached, {written} written"
    paid = money(totals.cost.value, whole=totals.cost.known == totals.calls)
    return f"{calls} call{'' if totals.calls == 1 else 's'}, {tokens}, {spent} s, cost {paid}"


def count(value: float) -> str:
    """Return a number of things."""
    return f"{value:,.0f}" if value < 1e6 else f"{value / 1e6:,.2f} M"


def duration(value: float | None) -> str:
    """Return seconds without their unit."""
    return (
        UNKNOWN if value is None else f"{value:.2f}" if value < 10 else f"{value:,.1f}" if value < 1e3 else count(value)
    )


def money(value: float | None, *, whole: bool) -> str:
    """Return dollars; `whole` is False where they are those of some calls only."""
    if value is None:
        return UNKNOWN
    places = 2 if value >= 1 or value == 0 else 4
    told = f"{value:.1e}" if 0 < value < 1e-4 else f"{value:,.{places}f}"
    return f"{'' if whole else '≥ '}${told}"


def _cells(totals: CallTotals) -> Iterator[str]:
    yield count(totals.calls)
    for tally in (totals.prompt, totals.cached, totals.completion):
        yield _tokens(tally, totals.calls)
    seconds = totals.seconds
    p50, p95 = seconds.percentiles(50, 95)
    known = seconds.sum if seconds.count else None
    yield ("" if known is None or seconds.count == totals.calls else "≥ ") + duration(known)
    yield from map(duration, (seconds.mean, p50, p95, *totals.first_token.percentiles(50)))
    yield money(totals.cost.value, whole=totals.cost.known == totals.calls)


def _tokens(tally: Tally, calls: int) -> str:
    if tally.value is None:
        return UNKNOWN
    return count(tally.sum) if tally.known == calls else f"≥ {count(tally.sum)}"


def _note(totals: CallTotals) -> str:
    """Say what is known of some calls and not of all; a dash says what is known of none."""
    said: dict[int, list[str]] = {}
    for what, tally in {"prompt": totals.prompt, "cached": totals.cached, "written": totals.completion}.items():
        said.setdefault(tally.known, []).append(what)
    parts = {f"say their {_and(what)} tokens": known for known, what in said.items()}
    parts |= {"say how long they took": totals.seconds.count, "have a price": totals.cost.known}
    shown = [f"{known:,} of {totals.calls:,} calls {what}" for what, known in parts.items() if 0 < known < totals.calls]
    return "; ".join(shown)


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _place(role: str) -> tuple[int, str]:
    return (_ORDER.index(role) if role in _ORDER else len(_ORDER)), role
