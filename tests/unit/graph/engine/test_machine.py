import os
import subprocess
import sys
import time

import psutil

from graph.engine.machine import birth_mark, free_memory, usable_cores


def test_a_process_keeps_its_mark_and_shares_it_with_none() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as first:
        mark = birth_mark(first.pid)
        assert mark is not None
        time.sleep(0.05)  # the mark counts in hundredths of a second
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as second:
            assert birth_mark(second.pid) not in {mark, None}
            second.communicate(b"\n")
        assert birth_mark(first.pid) == mark
        first.communicate(b"\n")
        assert birth_mark(first.pid) is None


def test_a_zombie_does_not_run() -> None:
    with subprocess.Popen(["true"]) as process:
        deadline = time.monotonic() + 10
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
            time.sleep(0.01)
        assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
        assert birth_mark(process.pid) is None


def test_the_machine_has_memory_and_cores() -> None:
    assert 0 < free_memory() <= psutil.virtual_memory().total
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
