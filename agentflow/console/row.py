"""One entry of what a run's story shows: a label, a text and a note."""

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import clean, one_line

_LABEL_WIDTH = 9
_MAX_WIDTH = 120


@dataclass(frozen=True)
class Row:
    """What is printed at once."""

    label: str
    body: str
    note: str = ""
    """A few words, shown dim beside the body."""
    detail: str = ""
    """A line below the body, shown dim."""
    style: str = ""
    """Of the body."""
    label_style: str = "cyan"

    def print(self, console: PlainConsole) -> None:
        """Print it as a row that wraps in its column, or as plain lines whose first holds label and note."""
        body, note = clean(self.body).rstrip(), one_line(self.note)
        if console.live:
            console.print(self._grid(body, note), width=min(console.width, _MAX_WIDTH))
            return
        first, *rest = body.split("\n")
        beside = f"  ({note})" if note else ""
        lines = [f"{self.label:<{_LABEL_WIDTH}} {first}{beside}".rstrip()]
        lines += [f"{'':<{_LABEL_WIDTH}} {line}".rstrip() for line in [*rest, *([self.detail] if self.detail else [])]]
        console.print(Text("\n".join(lines)), soft_wrap=True)

    def _grid(self, body: str, note: str) -> Table:
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(width=_LABEL_WIDTH, style=self.label_style, no_wrap=True)
        grid.add_column(ratio=1, overflow="fold")
        grid.add_column(justify="right", style="dim", no_wrap=True)
        shown = Text(body, style=self.style)
        if self.detail:
            shown = Text.assemble(shown, "\n", (self.detail, "dim"))
        grid.add_row(Text(self.label), shown, Text(note))
        return grid
