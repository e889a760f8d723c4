"""A list of runs, for people and for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import moment, one_line, short_id
from graph.storage.runs import RunRow

_COLUMNS = ("id", "when", "status", "stop", "turns", "question", "answer")
_STYLES = {"finished": "green", "failed": "red", "interrupted": "yellow", "cancelled": "yellow", "running": "cyan"}
_QUESTION_CHARS = 2_000


def status_of(row: RunRow) -> str:
    """Return the run's state; `interrupted` is one that says it runs while its process is gone."""
    return "interrupted" if row.interrupted else row.status


def print_runs(rows: Sequence[RunRow], *, as_json: bool) -> None:
    """Print a table on a terminal, and lines with tabs elsewhere; or an object a line."""
    if as_json:
        for row in rows:
            fields = asdict(row) | {"status": status_of(row)}
            del fields["owner"]
            print(json.dumps(fields))
        return
    console = PlainConsole()
    if not console.live:
        for row in rows:
            print("\t".join(_cells(row)))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in _COLUMNS:
        wide = name in {"question", "answer"}
        table.add_column(
            name, no_wrap=True, overflow="ellipsis", ratio=(2 if name == "question" else 1) if wide else None
        )
    table.expand = True
    for row in rows:
        cells = [Text(cell) for cell in _cells(row)]
        cells[2].stylize(_STYLES[str(cells[2])])
        table.add_row(*cells)
    console.print(table)


def _cells(row: RunRow) -> list[str]:
    when = moment(row.created)
    turns = "" if row.turns is None else str(row.turns)
    shown = one_line(row.question[:_QUESTION_CHARS]), one_line((row.answer or row.error or "")[:_QUESTION_CHARS])
    return [short_id(row.id), when, status_of(row), row.stop or "", turns, *shown]
