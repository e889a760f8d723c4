"""The process between the launcher and the sandbox: it watches memory, and it sees to it that nothing survives.

It is a subreaper, so that a grandchild that outlives its parents becomes its own child; it ends them all when the code
ends, when the launcher asks (SIGTERM), and when the launcher dies in any way (the parent-death signal).
"""

import os
import signal
import time

from . import kernel
from .report import LIMIT, report
from .setup import Setup

_SIGNALS = (signal.SIGCHLD, signal.SIGTERM)
_INTERVAL = 0.1
_PAGE = os.sysconf("SC_PAGE_SIZE")
PROCESSES = 64
"""Processes and threads of one run."""


def prepare(setup: Setup) -> None:
    """Tie this process to the launcher. Children that do not go on as supervisor call `release` first."""
    signal.pthread_sigmask(signal.SIG_SETMASK, _SIGNALS)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # a launcher that ignores them has handed that down
    os.umask(0o022)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    _follow(setup.parent)
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # out of memory, the machine sacrifices the sandbox first
    except OSError:
        pass  # a /proc mounted read-only: the machine then chooses by size


def release() -> None:
    """Undo, in a child, what only the supervisor needs."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def supervise(setup: Setup, main: int) -> None:
    """Wait for the sandbox to end, end all that is left of it, and exit with its status. Never returns."""
    _follow(setup.parent)  # entering a user namespace clears the parent-death signal
    interval = _INTERVAL
    while (status := _reap(main)) is None:
        received = signal.sigtimedwait(_SIGNALS, interval)
        if received is not None and received.si_signo == signal.SIGTERM:
            break
        if received is None:
            started = time.monotonic()
            if limit := _exceeded(setup):
                report(setup.results, LIMIT, limit)
                break
            interval = max(_INTERVAL, 50 * (time.monotonic() - started))  # at most 2 % of a core
    _end_all()
    code = 128 + signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _follow(parent: int) -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)  # it died before the line above; blocked, thus seen by supervise


def _reap(main: int) -> int | None:
    """Reap every ended child; return the wait status of `main` once it is among them."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended == main:
            return status
        if ended == 0:
            return None


def _end_all() -> None:
    """Kill all descendants, orphans included, until none is left to wait for."""
    while True:
        family = descendants()
        for number in (signal.SIGSTOP, signal.SIGKILL):  # a stopped process cannot fork past the second round
            for process in family:
                try:
                    os.kill(process, number)
                except (ProcessLookupError, PermissionError):
                    continue  # gone, or of a user namespace that ends with its first process
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def descendants() -> list[int]:
    """Return the ids of this process's living descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(fields) > 1 and fields[0] != b"Z":
                children.setdefault(int(fields[1]), []).append(int(name))
    found = list(children.get(os.getpid(), []))
    for process in found:  # grows as it is walked
        found.extend(children.get(process, []))
    return found


def _exceeded(setup: Setup) -> bytes | None:
    """Name the limit that all processes together have passed, for those that the kernel keeps for each alone."""
    family = descendants()
    if len(family) > PROCESSES + 2:  # the kernel exempts root from its own limit
        return b"processes"
    if sum(map(_private_bytes, family)) <= setup.memory_mb << 20:
        return None
    return b"memory" if sum(map(_proportional_bytes, family)) > setup.memory_mb << 20 else None


def _private_bytes(process: int) -> int:
    fields = _read(f"/proc/{process}/statm").split()
    return (int(fields[1]) - int(fields[2])) * _PAGE if fields else 0


def _proportional_bytes(process: int) -> int:
    """Count pages that forked processes share once; costs a walk of the page table, or the other count if refused."""
    for line in _read(f"/proc/{process}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) << 10
    return _private_bytes(process)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # it ended meanwhile
