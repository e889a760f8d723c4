"""The time that is left to a run, handed down to every call in it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class OutOfTimeError(Exception):
    """The run's seconds are used up. The flow turns it into a stop reason; it never leaves the graph."""


class Deadline:
    """A point in monotonic time."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds left, at least 0."""
        return max(0.0, self._at - time.monotonic())

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Cancel the block when the time is up.

        Raises:
            OutOfTimeError: the time was up before or within the block.
        """
        if not self.left():
            raise OutOfTimeError
        try:
            async with asyncio.timeout(self.left()) as scope:
                yield
        except TimeoutError as error:
            if scope.expired():
                raise OutOfTimeError from error
            raise
