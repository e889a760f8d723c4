"""The command that starts a run's supervisor, and with it the sandbox."""

import math
import os
import platform
import random
from pathlib import Path

from graph.errors import SandboxError
from graph.sandbox.bubblewrap import bubblewrap_command, bubblewrap_program
from graph.sandbox.child.figures import BACKEND
from graph.sandbox.child.setup import Setup
from graph.sandbox.child.supervisor import PROCESSES
from graph.sandbox.interpreter import current_interpreter
from graph.sandbox.level import Level

_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from child.main import main; main()"
_TRANSIENT_IDS = range(61184, 65520)
"""User ids that systemd sets aside for services without an account: none of them owns a file."""
_COUNTED_PER_NAMESPACE = (5, 14)
"""Linux before this counts a user's processes over all user namespaces."""


def environment(home: str) -> dict[str, str]:
    """Return all of a run's environment; nothing is inherited."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    threads["MALLOC_ARENA_MAX"] = "2"  # each arena takes 64 MB of address space
    return {"HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "MPLBACKEND": f"module://{BACKEND}", **threads}


def outside_command(level: Level, *, results: int, home: str, timeout: float, memory_mb: int) -> list[str]:
    """Return the supervisor's command line.

    `results` is the descriptor, in this process and the next, of the pipe for records; `home` the private directory as
    the code will see it. Raises SandboxError where bubblewrap is asked for and not installed.
    """
    interpreter = current_interpreter()
    under_tmp = any(Path("/tmp") in Path(path).parents for path in interpreter.readable)  # noqa: S108 - the name only
    setup = Setup(
        level=level.value,
        parent=os.getpid(),
        results=results,
        home=home,
        readable=list(interpreter.readable),
        links={} if under_tmp else {"/tmp": home},  # noqa: S108 - a link, inside, to the private directory
        site=list(interpreter.site),
        cpu_seconds=math.ceil(timeout) + 1,
        memory_mb=memory_mb,
        tasks=PROCESSES + _tasks_counted_before(level),
        drop_to=_unused_id(),
        command=[],
    )
    if level is Level.BUBBLEWRAP:
        program = bubblewrap_program()
        if program is None:
            raise SandboxError("Bubblewrap is not installed; install the package `bubblewrap`.")
        setup.command = bubblewrap_command(
            _python("inside", setup),
            program=program,
            readable=setup.readable,
            links=setup.links,
            home=home,
            drops=setup.drop_to is not None,
        )
    return _python("outside", setup)


def _python(stage: str, setup: Setup) -> list[str]:
    interpreter = current_interpreter()
    options = ["-I", "-S", "-B", "-X", "utf8", "-c", _START]
    return [interpreter.program, *options, interpreter.package, stage, setup.to_argument()]


def _unused_id() -> int | None:
    """Choose the id that a root launcher's run takes; None for ordinary users, and for a root that has no second id."""
    if os.geteuid() != 0:
        return None
    candidate = random.choice(_TRANSIENT_IDS)
    for name in ("uid_map", "gid_map"):
        lines = (line.split() for line in Path(f"/proc/self/{name}").read_text(encoding="ascii").splitlines())
        if not any(int(first) <= candidate < int(first) + int(count) for first, _, count in lines):
            return None
    return candidate


def _tasks_counted_before(level: Level) -> int:
    """Count the user's processes and threads that the kernel will count against the run's limit."""
    numbers = platform.release().split("-")[0].split(".")[:2]
    recent = tuple(int(number) for number in numbers if number.isdigit()) >= _COUNTED_PER_NAMESPACE
    if os.geteuid() == 0 or (recent and level is not Level.RLIMITS_ONLY):
        return 0
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == os.geteuid():
                    count += sum(1 for _ in (entry / "task").iterdir())
            except OSError:
                continue  # it ended meanwhile
    return count
