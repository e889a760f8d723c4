"""A list of trajectories, for people and for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Self

from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import moment, one_line, short_id
from graph.storage.runs import RunRow
from graph.trace import Trajectory

_COLUMNS = ("id", "when", "source", "dataset", "policy", "stop", "turns", "reward", "question", "answer")
_TEXT_CHARS = 2_000


@dataclass(frozen=True)
class TraceRow:
    """One trajectory in the list."""

    id: str
    created: float | None
    source: str | None
    conversation: str | None
    group: str | None
    parent: str | None
    dataset: str | None
    policies: Sequence[str]
    tools: Sequence[str]
    """Those that were called."""
    tags: Sequence[str]
    stop: str | None
    turns: int | None
    reward: float | None
    reward_source: str | None
    question: str
    answer: str | None
    error: str | None

    @classmethod
    def of(cls, found: Trajectory) -> Self:
        """Make a row of a trajectory."""
        shown = found.model_dump(mode="json", include={*cls.__dataclass_fields__} - {"turns", "tools"})
        return cls(**shown, policies=found.policies, tools=found.used_tools, turns=len(found.turns))

    @classmethod
    def stored(cls, row: RunRow, *, policies: Sequence[str], tools: Sequence[str]) -> Self:
        """Make a row of a run."""
        shown = {name: getattr(row, name) for name in cls.__dataclass_fields__ if name not in {"policies", "tools"}}
        return cls(**shown, policies=policies, tools=tools)


def print_traces(rows: Sequence[TraceRow], *, as_json: bool) -> None:
    """Print a table on a terminal, and lines with tabs elsewhere; or an object a line."""
    if as_json:
        for row in rows:
            print(json.dumps(asdict(row)))
        return
    console = PlainConsole()
    if not console.live:
        for row in rows:
            print("\t".join(_cells(row)))
        return
    lines = [_cells(row) for row in rows]
    # Columns without a value would take the room of questions.
    kept = [column for column in range(len(_COLUMNS)) if any(line[column] for line in lines)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=True)
    for column in kept:
        name = _COLUMNS[column]
        share = {"question": 2, "answer": 1}.get(name)
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=share)
    for line in lines:
        table.add_row(*(Text(line[column]) for column in kept))
    console.print(table)


def _cells(row: TraceRow) -> list[str]:
    when = moment(row.created)
    named = [row.source, row.dataset, " + ".join(row.policies), row.stop]
    numbers = ["" if value is None else f"{value:g}" for value in (row.turns, row.reward)]
    said = [row.question, row.answer if row.answer is not None else row.error]
    texts = [one_line((text or "")[:_TEXT_CHARS]) for text in said]
    return [short_id(one_line(row.id)), when, *(one_line(name or "") for name in named), *numbers, *texts]
