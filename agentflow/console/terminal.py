"""Consoles of Rich that show text as it is, and know what they are connected to."""

import os
import sys
from typing import IO, NoReturn

from rich.console import Console

from agentflow.console.text import clean


class PlainConsole(Console):
    """Interprets no markup, and lets the reader of a pipe go away."""

    def __init__(self, file: IO[str] | None = None, *, stderr: bool = False) -> None:
        super().__init__(file=file, stderr=stderr, markup=False, highlight=False, emoji=False)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command, which may have a run to stop."""
        raise BrokenPipeError

    @property
    def live(self) -> bool:
        """Whether lines can be drawn again: not in a pipe, a file or a dumb terminal, whatever FORCE_COLOR says."""
        return self.is_terminal and not self.is_dumb_terminal and self.file.isatty()


def complain(sentence: str) -> None:
    """Print what went wrong on standard error: a server's or a file's words may be part of it."""
    if sys.stderr is not None:
        print(clean(sentence), file=sys.stderr)


def lose_output() -> None:
    """Send what is still to be printed nowhere: Python would complain at its end that nobody reads it."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
