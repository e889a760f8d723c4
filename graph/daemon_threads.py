"""Threads that nobody waits for: a function that hangs in one keeps neither its caller nor the process's end."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """Runs each function in a daemon thread of its own, which ends with the process at the latest.

    A ThreadPoolExecutor by name only, as a loop's default executor must be one: the pool's own threads would be joined
    when the loop closes and when Python ends.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start `fn` at once."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is for who waits for the result
                future.set_exception(error)
            else:
                future.set_result(result)

        Thread(target=work, name="agentflow-worker", daemon=True).start()
        return future
