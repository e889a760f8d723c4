"""Runs in processes of their own, to be killed and gone on with."""

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

from graph.trace import Trajectory
from tests.fakes import ScriptedServer
from tests.flows import open_flow

# Its processes start from one that has imported everything: at once, and without what the tests have opened.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.killable", "graph.models.chat", "graph.tools.registry"])

_SECONDS = 60


class Address:
    """What `open_flow` needs of a server that another process runs."""

    def __init__(self, url: str) -> None:
        self.url, self.models = url, ("test-model",)


def drive(database: str, url: str, directory: str, run: str | None, die_at: str | None) -> None:
    """Ask, or resume `run`; note the run's id as soon as there is one, and its trajectory at the end.

    With `die_at` it kills itself at the first event of that kind.
    """
    place = Path(directory)
    os.environ["COUNTING_FILE"] = str(place / "counts.txt")

    async def go() -> Trajectory:
        server: ScriptedServer = Address(url)  # type: ignore[assignment]
        async with open_flow(server, database) as runner:
            if run is not None:
                return await runner.resume(run)
            return await runner.ask("What is 40 + 2?", group="g", reference=("42",), on_event=note)

    def note(event) -> None:
        if event.kind == "run":
            (place / "run.tmp").write_text(event.data["id"])
            (place / "run.tmp").rename(place / "run.txt")
        if event.kind == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    done = asyncio.run(go())
    (place / "done.json").write_text(done.model_dump_json())


class Killable:
    """One question's run, over the lives of several processes."""

    def __init__(self, database: str, server: ScriptedServer, directory: Path) -> None:
        self.database, self.server, self.directory = database, server, directory
        (directory / "counts.txt").touch()

    @property
    def run(self) -> str | None:
        file = self.directory / "run.txt"
        return file.read_text() if file.exists() else None

    @property
    def counts(self) -> list[str]:
        """What the tool noted, in order."""
        return (self.directory / "counts.txt").read_text().split()

    def start(self, die_at: str | None = None) -> BaseProcess:
        """Ask, or go on where there is a run."""
        given = self.database, self.server.url, str(self.directory), self.run, die_at
        process = processes.Process(target=drive, args=given)
        process.start()
        return process

    def kill_when(self, condition: Callable[[], bool], *, after: float = 0.0) -> None:
        """Start, and kill the process when the condition holds, or let it end."""
        process = self.start()
        deadline = time.monotonic() + _SECONDS
        while process.is_alive() and not (self.run and condition()):
            assert time.monotonic() < deadline, "the run hangs"
            time.sleep(0.001)
        time.sleep(after)
        process.kill()
        process.join()

    def die_at(self, kind: str) -> None:
        """Start, and have the process kill itself at an event, before it does anything more."""
        process = self.start(kind)
        process.join(_SECONDS)
        assert process.exitcode == -signal.SIGKILL

    def finish(self) -> Trajectory:
        """Go on to the end."""
        process = self.start()
        process.join(_SECONDS)
        assert process.exitcode == 0
        return Trajectory.model_validate_json((self.directory / "done.json").read_text())
