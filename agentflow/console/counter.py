"""How far something has come whose end is not known: in one line of a terminal; elsewhere a line every thousand."""

from types import TracebackType
from typing import Self

from agentflow.console.terminal import PlainConsole

_EVERY = 1_000


class Counter:
    """Shows a number that grows, on standard error."""

    def __init__(self, verb: str, what: str) -> None:
        """They stand before and after the number."""
        self._verb, self._what = verb, what
        self._console = PlainConsole(stderr=True)
        self._status = self._console.status(self._text(0)) if self._console.live else None
        self._said = 0

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing on a terminal."""
        if self._status:
            self._status.stop()

    def __call__(self, number: int) -> None:
        """Show that it has come so far."""
        if self._status:
            if number != self._said:
                self._said = number
                self._status.update(self._text(number))
        elif number // _EVERY > self._said // _EVERY:
            self._said = number
            self._console.print(self._text(number), soft_wrap=True)

    def _text(self, number: int) -> str:
        return f"{self._verb} {number:,} {self._what}"
