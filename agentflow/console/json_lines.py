"""A run as JSON, one event a line, for programs."""

import json
import sys
from contextlib import ExitStack, redirect_stdout
from types import TracebackType
from typing import Self

from graph.events import Event, EventKind


class JsonLines:
    """Prints events as JSON in ASCII. The last one is always `done`."""

    def __init__(self, *, stream: bool) -> None:
        self.run: str | None = None
        self._stream = stream
        self._out = sys.stdout
        self._done = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Keep standard output for events: what a user's tool prints goes to standard error."""
        self._stack.enter_context(redirect_stdout(sys.stderr))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give standard output back."""
        self._stack.close()

    def opening(self, _question: str | None, /) -> None:
        """Print the first event."""
        self(Event.of(EventKind.NOTICE, {"text": "Opening models and tools"}))

    def __call__(self, event: Event, /) -> None:
        """Print an event."""
        if event.kind is EventKind.TOKEN and not self._stream:
            return
        if event.kind is EventKind.RUN:
            self.run = str(event.data["id"])
        self._done = self._done or event.kind is EventKind.DONE
        self._out.write(json.dumps(event.as_json()) + "\n")
        self._out.flush()

    def broke_off(self, stop: str, sentence: str, /) -> None:
        """Print the last event, unless the run's own was."""
        if not self._done:
            empty = {"answer": None, "solution": None, "seconds": None}
            self(Event.of(EventKind.DONE, {"id": self.run, "stop": stop, **empty, "error": sentence}))
