"""A progress bar on a terminal; elsewhere a line when something begins, and every tenth of it."""

from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from agentflow.console.terminal import PlainConsole

_STEPS = 10


class Downloads:
    """Shows downloads, several one after another."""

    def __init__(self, console: PlainConsole) -> None:
        self._console = console
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, int] = {}
        self._bars = (
            Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=console,
            )
            if console.live
            else None
        )

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._bars:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bars as they are."""
        if self._bars:
            self._bars.stop()

    def __call__(self, name: str, done: int, size: int) -> None:
        """Show that `done` of `size` bytes of `name` are there."""
        if self._bars:
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=size, completed=done)
            self._bars.update(self._tasks[name], completed=done)
            return
        step = done * _STEPS // size
        if self._said.get(name, -1) < step:
            self._said[name] = step
            self._console.print(f"{name}: {100 * step // _STEPS} % of {size / 1e6:,.0f} MB", soft_wrap=True)
