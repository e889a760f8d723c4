"""Starting one sandboxed run, reading what it says, and ending it in time, whatever happens to this process.

The chain is launcher, supervisor, sandbox. The code is sent only after the sandbox has said that it stands, so a
launcher that dies while it is being built leaves nothing that could run.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import FileIO

from graph.errors import SandboxError
from graph.sandbox.command import environment, outside_command
from graph.sandbox.level import Level
from graph.sandbox.output import Excerpt
from graph.sandbox.records import Records
from graph.sandbox.result import Limit, RunResult

_STREAM_BYTES = 200_000
"""Bytes kept of each output stream."""
_FLOOD_BYTES = 32 << 20
"""Bytes of one stream at which the run is ended."""
_START_SECONDS = 60.0
_END_SECONDS = 10.0
_CHUNK = 1 << 16


async def run_python(code: str, *, timeout: float, memory_mb: int, level: Level) -> RunResult:
    """Run code in a fresh sandbox and return what came of it; failures of the code are results, too.

    `timeout`: seconds of wall clock from the start of the code; each process has that much processor time, too.
    `memory_mb`: MiB of address space for each process and of resident memory for all together.
    On cancellation everything is killed before the cancellation goes on. Raises SandboxError where the sandbox itself
    cannot be had.
    """
    with _home(level) as home:
        async with _started(level, home=home, timeout=timeout, memory_mb=memory_mb) as run:
            await run.send(code.encode("utf-8", "surrogatepass"))
            started = time.monotonic()
            limit = await run.finish(timeout)
            seconds = time.monotonic() - started
    return _result(run, limit, seconds)


@contextmanager
def _home(level: Level) -> Iterator[str]:
    """Provide the private directory: in memory, inside the sandbox, or on disk where there is no inside."""
    if level is not Level.RLIMITS_ONLY:
        yield "/sandbox"
        return
    try:
        directory = tempfile.TemporaryDirectory(prefix="agentflow-", ignore_cleanup_errors=True)
    except OSError as error:
        raise SandboxError(f"No private directory could be made ({error}); make room or set TMPDIR.") from error
    with directory as home:
        yield os.path.realpath(home)


class SandboxStartError(SandboxError):
    """The sandbox could not be built; `reason` is what the kernel or bubblewrap said."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The sandbox did not start ({reason}); `agentflow doctor` says what works here.")
        self.reason = reason


class _Run:
    """One run under way."""

    def __init__(self, process: asyncio.subprocess.Process, results: asyncio.StreamReader) -> None:
        self.process = process
        self.records = Records()
        self.stdout = Excerpt(_STREAM_BYTES)
        self.stderr = Excerpt(_STREAM_BYTES)
        self._flooded = asyncio.Event()
        assert process.stdout is not None
        assert process.stderr is not None
        self.reading = asyncio.gather(
            self._read(process.stdout, self.stdout), self._read(process.stderr, self.stderr), self.records.read(results)
        )

    async def _read(self, stream: asyncio.StreamReader, excerpt: Excerpt) -> None:
        while data := await stream.read(_CHUNK):
            excerpt.add(data)
            if excerpt.total > _FLOOD_BYTES:
                self._flooded.set()

    async def send(self, code: bytes) -> None:
        """Wait until the sandbox stands and send it the code. Raises SandboxError where it does not come up."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self.records.answered.wait()
                if not self.records.stands:
                    await self.reading
        except TimeoutError as error:
            raise SandboxError(f"The sandbox did not start within {_START_SECONDS:.0f} s; free the machine.") from error
        if not self.records.stands:
            raise SandboxStartError(self.records.failure or self.stderr.text().strip() or "it ended without a word")
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(len(code).to_bytes(8, "big") + code)
            await self.process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return  # killed meanwhile: its end says how

    async def finish(self, timeout: float) -> Limit | None:
        """Wait for the end of the run, and bring it about at the deadline or in a flood of output."""
        ended = asyncio.ensure_future(self.process.wait())
        flooded = asyncio.ensure_future(self._flooded.wait())
        try:
            done, _ = await asyncio.wait({ended, flooded}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            flooded.cancel()
        if ended in done:
            return None
        await self.end()
        return "output" if flooded in done else "time"

    async def end(self) -> None:
        """Kill what is left of the run and wait until it is gone; the signal is sent before anything is awaited."""
        if self.process.returncode is None:
            # The supervisor ends all the rest, orphans included. Before it stands there is only its process group.
            self._kill(signal.SIGTERM if self.records.stands else signal.SIGKILL)
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self.process.wait()
                await self.reading
        except TimeoutError:
            self._kill(signal.SIGKILL)
        finally:
            self.reading.cancel()

    def _kill(self, number: int) -> None:
        try:
            if number == signal.SIGTERM:
                self.process.send_signal(number)
            else:
                os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return


@asynccontextmanager
async def _started(level: Level, *, home: str, timeout: float, memory_mb: int) -> AsyncIterator[_Run]:
    """Start the supervisor; on leaving, in any way, nothing of the run is alive."""
    async with _results_pipe() as (results, write_end):
        try:
            process = await asyncio.create_subprocess_exec(
                *outside_command(level, results=write_end.fileno(), home=home, timeout=timeout, memory_mb=memory_mb),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(write_end.fileno(),),
                env=environment(home),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"The sandbox could not be started ({error}); free processes and retry.") from error
        write_end.close()
        run = _Run(process, results)
        try:
            yield run
        finally:
            await run.end()


@asynccontextmanager
async def _results_pipe() -> AsyncIterator[tuple[asyncio.StreamReader, FileIO]]:
    """Make the pipe for records; the end to write to is the supervisor's, the other closes on leaving."""
    results = asyncio.StreamReader()
    try:
        read_descriptor, write_descriptor = os.pipe()
    except OSError as error:
        raise SandboxError(f"The sandbox could not be started ({error}); free open files and retry.") from error
    with FileIO(read_descriptor) as read_end, FileIO(write_descriptor, "w") as write_end:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(results), read_end
        )
        try:
            yield results, write_end
        finally:
            transport.close()


def _result(run: _Run, limit: Limit | None, seconds: float) -> RunResult:
    status = run.process.returncode
    assert status is not None
    exit_status = 128 - status if status < 0 else status
    if limit is None:
        limit = "time" if exit_status == 128 + signal.SIGXCPU else run.records.limit
    return RunResult(
        stdout=run.stdout.text(),
        stderr=run.stderr.text(),
        value=run.records.value,
        exit_status=exit_status,
        limit=limit,
        figures=tuple(run.records.figures),
        seconds=seconds,
        stdout_truncated=run.stdout.truncated,
        stderr_truncated=run.stderr.truncated,
        value_truncated=run.records.value_truncated,
    )
