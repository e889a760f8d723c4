"""A guarded command and everything it started end with the process that wanted it."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from training import guard

# Starts a child that ignores SIGTERM, writes its own id and the child's to a file, then does as it is told.
COMMAND = """
import os, signal, subprocess, sys, time
path, then = sys.argv[1:]
child_code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", child_code], stdout=subprocess.PIPE)
child.stdout.readline()
if then == "ignore":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(path + ".part", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(path + ".part", path)
if then == "exit":
    sys.exit(3)
time.sleep(600)
"""

OWNER = """
import subprocess, sys, time
subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True)
time.sleep(600)
"""


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


def test_killing_the_owner_ends_the_command_and_its_children(pids: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, *_guarded(pids, "sleep")])
    family = _family(pids)
    owner.kill()
    owner.wait()
    _until(lambda: _gone(family))


@pytest.mark.parametrize("then", ["sleep", "ignore"])
def test_closing_the_pipe_ends_the_command_and_its_children(pids: Path, then: str) -> None:
    process = subprocess.Popen(_guarded(pids, then), stdin=subprocess.PIPE, start_new_session=True)
    family = _family(pids)
    assert process.stdin is not None
    process.stdin.close()
    process.wait(guard.GRACE_SECONDS + 20)
    _until(lambda: _gone(family))


def test_children_of_a_command_that_ended_do_not_outlive_it(pids: Path) -> None:
    with subprocess.Popen(_guarded(pids, "exit"), stdin=subprocess.PIPE, start_new_session=True) as process:
        family = _family(pids)
        process.wait(30)
        _until(lambda: _gone(family))


def _guarded(pids: Path, then: str) -> list[str]:
    return [sys.executable, "-I", guard.__file__, sys.executable, "-c", COMMAND, str(pids), then]


def _family(pids: Path) -> list[int]:
    _until(pids.exists)
    return [int(pid) for pid in pids.read_text().split()]


def _gone(family: list[int]) -> bool:
    return not any(_runs(pid) for pid in family)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
