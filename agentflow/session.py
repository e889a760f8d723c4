"""A run in front of the user: opened, shown as it happens, stopped by Ctrl-C, and ended with an exit status."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from agentflow.console.printer import Printer
from agentflow.console.terminal import PlainConsole, complain, lose_output
from agentflow.interruption import run_stoppable

if TYPE_CHECKING:
    from graph.config import FlowConfig
    from graph.events import Event
    from graph.runner import Runner
    from graph.trace import Trajectory

    Work = Callable[["Runner", Callable[["Event"], None]], Awaitable["Trajectory"]]


@dataclass(frozen=True)
class View:
    """How a run is shown."""

    as_json: bool
    stream: bool
    verbose: bool

    def printer(self) -> Printer:
        """Make what shows it."""
        if self.as_json:
            from agentflow.console.json_lines import JsonLines  # each of the two is loaded only where it is used

            return JsonLines(stream=self.stream)
        from agentflow.console.story import Story

        return Story(PlainConsole(), stream=self.stream, verbose=self.verbose)


class _Reader:
    """Hands events to the printer. When they cannot be printed any more, it stops the run, as Ctrl-C does.

    What is noticed after the run's end is no part of its output, and goes to standard error.
    """

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._lock = threading.Lock()
        self._done = False
        self._stop: Callable[[], None] | None = None
        self.error: OSError | None = None
        """Why nothing is printed any more: `| head` has seen enough, or the disk is full."""

    def attach(self) -> None:
        """Choose the running task as the one to stop."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop() -> None:
            loop.call_soon_threadsafe(task.cancel)

        self._stop = stop

    def __call__(self, event: "Event") -> None:
        """Print an event, from whatever thread it comes."""
        with self._lock:
            if self._done and event.kind == "notice":
                complain(str(event.data["text"]))
                return
            self._done = self._done or event.kind == "done"
            try:
                if self.error is None:
                    self._printer(event)
            except OSError as error:
                self.error = error
                if self._stop:
                    self._stop()


def show_run(
    config: "FlowConfig",
    view: View,
    work: "Work",
    *,
    question: str | None = None,
    tools: Sequence[str] | None = None,
) -> "Trajectory":
    """Open models, tools and storage, do `work` with them and show it.

    Raises:
        AgentFlowError: with the command that goes on as a note, when the run has begun.
        typer.Exit: status 2 when the run failed, which has been said then.
    """
    printer = view.printer()
    reader = _Reader(printer)

    def last_words() -> None:
        printer.broke_off("CANCELLED", "stopped by the user")
        complain(f"Stopped; {_how_to_go_on(printer)}" if printer.run else "Stopped before the run began.")

    with printer:
        printer.opening(question)
        from graph.errors import (
            AgentFlowError,
            StorageError,
        )  # not at the top: the user sees something before pydantic is loaded

        try:
            trajectory = run_stoppable(lambda: _session(config, reader, work, tools), last_words=last_words)
        except asyncio.CancelledError:
            if reader.error is None:
                raise
            lose_output()
            if isinstance(reader.error, BrokenPipeError):
                raise typer.Exit(128 + signal.SIGPIPE) from None
            raise StorageError(_unwritable(reader.error, printer)) from reader.error
        except AgentFlowError as error:
            from graph.known_secrets import KnownSecrets

            printer.broke_off("FAILED", KnownSecrets.of(config).hide(str(error)))
            if printer.run:
                error.add_note(f"The run is kept: {_how_to_go_on(printer)}")
            raise
    if trajectory.stop == "FAILED":
        complain(f"{trajectory.error}\nThe run is kept: {_how_to_go_on(printer)}")
        raise typer.Exit(2)
    return trajectory


async def _session(config: "FlowConfig", reader: _Reader, work: "Work", tools: Sequence[str] | None) -> "Trajectory":
    from graph.events import Event, EventKind  # these take a second: by now the user has seen something
    from graph.runner import open_runner
    from graph.storage.database import open_database

    def notice(text: str) -> None:
        reader(Event.of(EventKind.NOTICE, {"text": text}))

    reader.attach()
    async with (
        open_database(config.storage.url) as database,
        open_runner(config, database=database, tools=tools, on_notice=notice) as runner,
    ):
        return await work(runner, reader)


def _unwritable(error: OSError, printer: Printer) -> str:
    return f"The output cannot be written ({error.strerror}); {_how_to_go_on(printer)}"


def _how_to_go_on(printer: Printer) -> str:
    return f"go on with: agentflow runs resume {printer.run}"
