"""Stopping a run by Ctrl-C and other signals: at once, with what was committed kept."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn, TypeVar

from graph.daemon_threads import DaemonThreads

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_SECONDS = 5.0
"""For tools and servers to let go; after that, or at a second signal, the process ends as it stands."""


def run_stoppable(work: Callable[[], Coroutine[Any, Any, T]], *, last_words: Callable[[], None]) -> T:
    """Run `work` to its end. At a signal cancel it, wait for it to let go, print `last_words`, and end the process.

    The process then ends with 128 plus the signal's number, as a shell reports it, and without waiting for threads: one
    of them may be stuck in a user's tool.
    """
    ending = threading.Lock()
    received: list[int] = []

    def end(number: int) -> NoReturn:
        with ending:  # never released: the other caller waits for the process to end
            try:
                last_words()
                _flush()
            finally:
                os._exit(128 + number)

    async def main() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        # Nor does a finished run wait for the threads in which a user's tool may hang.
        loop.set_default_executor(DaemonThreads())

        def stop(number: int, _frame: FrameType | None) -> None:
            if received:
                end(number)
            received.append(number)
            # A thread, as a tool that never gives way holds up the loop, and with it everything else.
            timer = threading.Timer(_GRACE_SECONDS, end, (number,))
            timer.daemon = True
            timer.start()
            loop.call_soon_threadsafe(task.cancel)

        with handling_signals(stop):
            try:
                return await work()
            except asyncio.CancelledError:
                if received:
                    end(received[0])
                raise

    return asyncio.run(main())


@contextmanager
def handling_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle Ctrl-C and its kin, but for those that whoever started this process wants ignored (`nohup`, `&`)."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, old in before.items():
        if old is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # nobody reads it any more, or it was closed from the start
            stream.flush()
