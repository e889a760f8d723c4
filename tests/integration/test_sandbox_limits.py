"""Limits of a run, and that nothing outlives it: docs/sandbox.md, each limit and ending in turn."""

# ruff: noqa: ASYNC110, ASYNC240 - a test may block its own loop

import asyncio
import os
import signal
import textwrap
import time
from pathlib import Path

import pytest

from graph.sandbox import Level, run_python
from tests.sandbox_levels import EVERY, ISOLATED, gone, launcher, processes_of, run

every = pytest.mark.parametrize("level", EVERY)
isolated = pytest.mark.parametrize("level", ISOLATED)


@every
async def test_processes_are_limited(level: Level) -> None:
    code = """
    import os, time
    count = 0
    while count < 500:
        try:
            if os.fork() == 0:
                time.sleep(100)
                os._exit(0)
        except BlockingIOError:
            break
        count += 1
    count
    """
    result = await run(textwrap.dedent(code), level)
    assert result.value is not None
    assert 40 <= int(result.value) <= 64
    assert await gone(os.getpid())


@every
async def test_memory_of_one_process_is_limited(level: Level) -> None:
    result = await run("x = bytearray(2 << 30)", level, memory_mb=512)
    assert result.stderr.endswith("MemoryError\n")
    assert result.exit_status == 1


@every
async def test_memory_of_all_processes_together_is_limited(level: Level) -> None:
    code = """
    import os, time
    for _ in range(8):
        if os.fork() == 0:
            block = bytearray(100 << 20)
            time.sleep(100)
    time.sleep(100)
    """
    result = await run(textwrap.dedent(code), level, memory_mb=384)
    assert result.limit == "memory"
    assert await gone(os.getpid())


@every
async def test_file_size_is_limited(level: Level) -> None:
    result = await run("with open('big', 'wb') as file:\n    for _ in range(100): file.write(bytes(1 << 20))", level)
    assert "File too large" in result.stderr


@isolated
async def test_all_files_together_are_limited(level: Level) -> None:
    code = "for n in range(20):\n    with open(str(n), 'wb') as file: file.write(bytes(30 << 20))"
    result = await run(code, level)
    assert "No space left on device" in result.stderr


@every
async def test_endless_output_is_bounded_and_ended(level: Level) -> None:
    result = await run("while True: print('x' * 1000)", level, timeout=60)
    assert result.limit == "output"
    assert len(result.stdout) < 300_000
    assert result.stdout_truncated
    result = await run("import sys\nwhile True: sys.stderr.write('y' * 10000)", level, timeout=60)
    assert (result.limit, result.stderr_truncated) == ("output", True)


@every
async def test_endless_loop_ends_at_the_limit(level: Level) -> None:
    started = time.monotonic()
    result = await run("print('on', end='')\nwhile True: pass", level, timeout=1.5)
    assert (result.stdout, result.limit, result.timed_out) == ("on", "time", True)
    assert time.monotonic() - started < 10


@every
@pytest.mark.parametrize("ending", ["time.sleep(100)", "pass", "os._exit(0)", "1 / 0"])
async def test_nothing_outlives_a_run(level: Level, ending: str) -> None:
    code = f"""
    import os, signal, time
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                for number in range(1, 32):
                    if number not in (signal.SIGKILL, signal.SIGSTOP):
                        signal.signal(number, signal.SIG_IGN)
                time.sleep(100)
            os._exit(0)
    time.sleep(0.2)
    print("started", flush=True)
    {ending}
    """
    started = time.monotonic()
    result = await run(textwrap.dedent(code), level, timeout=2)
    assert result.stdout == "started\n"
    assert time.monotonic() - started < 20
    assert processes_of(os.getpid()) == []


@every
async def test_cancellation_kills_at_once(level: Level) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(100)"
    task = asyncio.create_task(run_python(code, timeout=90, memory_mb=512, level=level))
    while len(processes_of(os.getpid())) < 3:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_of(os.getpid()) == []
    assert time.monotonic() - started < 10


@every
async def test_cancellation_while_the_sandbox_is_built(level: Level) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    for delay in (0, 0, 0.005, 0.01, 0.02, 0.03, 0.05):
        task = asyncio.create_task(run_python("while True: pass", timeout=90, memory_mb=512, level=level))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await gone(os.getpid())
    await asyncio.sleep(0.1)
    assert len(os.listdir("/proc/self/fd")) == descriptors


@every
async def test_a_killed_launcher_leaves_nothing(level: Level) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(100)"
    with launcher(level) as process:
        assert process.stdin is not None
        process.stdin.write(code)
        process.stdin.close()
        whole = 3 if level is Level.RLIMITS_ONLY else 4
        while len(processes_of(process.pid)) < whole:
            assert process.poll() is None
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert await gone(process.pid)


@every
async def test_settings_of_the_launcher_do_not_reach_inside(level: Level) -> None:
    prologue = """
import os, signal
os.umask(0o077)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGTERM})
"""
    code = "import os, signal\nprint(oct(os.umask(0)), signal.pthread_sigmask(0, []), int(signal.getsignal(15)))"
    with launcher(level, prologue) as process:
        output, _ = process.communicate(code, timeout=60)
    assert output.strip() == "0o22 set() 0"


@every
async def test_the_private_directory_is_fresh_and_deleted(level: Level) -> None:
    code = "import os\nopen('kept', 'w').close()\nprint(os.getcwd())\nsorted(os.listdir('.'))"
    for _ in range(2):
        result = await run(code, level)
        assert result.value == "['kept', 'script.py']"
        assert not Path(result.stdout.strip()).exists()


@every
async def test_runs_do_not_see_each_other(level: Level) -> None:
    first = "import tempfile, time\nfor path in ('mark', tempfile.gettempdir() + '/mark2'): open(path, 'w').close()"
    first += "\ntime.sleep(1)"
    second = "import os, time\ntime.sleep(0.5)\n[os.path.exists(p) for p in ('mark', '/tmp/mark2', '/sandbox/mark')]"
    _, result = await asyncio.gather(run(first, level), run(second, level))
    assert result.value == "[False, False, False]"


@every
async def test_forged_results_are_only_data(level: Level) -> None:
    code = """
    import os
    for number in range(3, 256):
        try:
            os.write(number, b"\\nfailed eA==\\nvalue /////w==\\nfigure eA==\\nvalue \\xff\\n" + b"z" * 70000)
        except OSError:
            continue
    print("done")
    """
    result = await run(textwrap.dedent(code), level)
    assert result.stdout == "done\n"
    assert result.figures == ()
    assert result.exit_status == 0
