"""What a model is writing at this moment, at the foot of the terminal."""

import time

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import one_line, seconds

_LINES = 3
_REDRAWS_PER_SECOND = 8


class Writing:
    """A few lines that are drawn again and again, and are gone in the end."""

    def __init__(self, console: PlainConsole) -> None:
        self._console = console
        self._what = ""
        self._text = ""
        self._since = time.monotonic()
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            console=console, transient=True, refresh_per_second=_REDRAWS_PER_SECOND, get_renderable=self._render
        )

    def start(self) -> None:
        """Begin to draw."""
        self._live.start()

    def stop(self) -> None:
        """Leave no trace."""
        self._live.stop()

    def begin(self, what: str) -> None:
        """Show that something else is under way."""
        self._what, self._text, self._since = what, "", time.monotonic()

    def add(self, module: str, text: str) -> None:
        """Add to what `module` writes."""
        if not self._what.startswith(module):
            self.begin(module)
        self._text += text

    def _render(self) -> RenderableType:
        if not self._what:
            return Text()
        self._spinner.update(text=Text(f"{self._what} {seconds(time.monotonic() - self._since)}", style="dim"))
        room = _LINES * max(20, self._console.width - 4)
        tail = one_line(self._text[-2 * room :])[-room:]
        return Group(self._spinner, Text(tail, style="dim")) if tail else self._spinner
