"""The sandbox levels that work on this machine, for tests that run at each of them."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from graph.errors import SandboxError
from graph.sandbox import Level, RunResult, run_python
from graph.sandbox.detect import why_not


def _missing(level: Level) -> str | None:
    if level is not Level.RLIMITS_ONLY:
        return why_not(level)
    try:
        asyncio.run(run("import glob", level))
    except SandboxError as error:  # root with an interpreter in its home directory: no other user can read it
        return str(error)
    return None


def _each(*levels: Level) -> list[ParameterSet]:
    found = []
    for level in levels:
        reason = _missing(level)
        found.append(pytest.param(level, id=level.value, marks=[pytest.mark.skipif(bool(reason), reason=str(reason))]))
    return found


async def run(code: str, level: Level, *, timeout: float = 20.0, memory_mb: int = 1024) -> RunResult:
    """Run code with roomy limits."""
    return await run_python(code, timeout=timeout, memory_mb=memory_mb, level=level)


def processes_of(launcher: int) -> list[int]:
    """Return the living processes of runs that a process started: all carry its id in their command line."""
    mark = f"'parent': {launcher}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if mark in command:
            found.append(int(entry.name))
    return found


SECRET = "sk-planted-secret"
_LAUNCHER = """
import asyncio, sys
from graph.sandbox import Level, run_python

code = sys.stdin.read()
result = asyncio.run(run_python(code, timeout=60, memory_mb=1024, level=Level(sys.argv[1])))
print(result.stdout, result.stderr)
"""


def launcher(level: Level, prologue: str = "") -> subprocess.Popen[str]:
    """Start a process with SECRET in its environment; it runs the code of its standard input and prints the output."""
    root = str(Path(__file__).resolve().parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", prologue + _LAUNCHER, level.value],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=root,
        env={"PYTHONPATH": root, "PATH": os.environ["PATH"], "OPENAI_API_KEY": SECRET},
    )


async def gone(launcher: int) -> bool:
    """Wait, for at most ten seconds, until no process of a launcher's runs is left."""
    for _ in range(200):
        if not processes_of(launcher):
            return True
        await asyncio.sleep(0.05)
    return False


ISOLATED = _each(Level.BUBBLEWRAP, Level.NAMESPACES)
EVERY = [*ISOLATED, *_each(Level.RLIMITS_ONLY)]
ONE = [next((level for level in EVERY if not level.marks[0].args[0]), EVERY[0])]
"""The strongest that works, for what does not depend on the level."""
