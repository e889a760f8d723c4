"""The sandbox levels that work on this machine, for tests that run at each of them."""

import asyncio
import os
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


ISOLATED = _each(Level.BUBBLEWRAP, Level.NAMESPACES)
EVERY = [*ISOLATED, *_each(Level.RLIMITS_ONLY)]
ONE = [next((level for level in EVERY if not level.marks[0].args[0]), EVERY[0])]
"""The strongest that works, for what does not depend on the level."""
