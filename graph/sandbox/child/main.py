"""The two stages of a run's processes: `outside` builds the sandbox and supervises it, `inside` runs the code."""

import os
import sys

from . import kernel
from .lockdown import lock_down
from .report import FAILED, READY, report
from .script import receive_code, run_script
from .setup import Setup


def main() -> None:
    """Play the stage that the command line names. Only the process that runs the code returns."""
    stage, setup = sys.argv[1], Setup.from_argument(sys.argv[2])
    try:
        if stage == "outside":
            _build(setup)
        else:
            lock_down(setup)
    except OSError as error:
        report(setup.results, FAILED, f"{error.filename or 'setting up'}: {error.strerror}".encode())
        os._exit(1)
    report(setup.results, READY)
    code = receive_code()
    if code is None:
        os._exit(1)
    run_script(code, setup)


def _build(setup: Setup) -> None:
    """Start the sandbox and supervise it. Returns only in the process, inside, that is to run the code."""
    from . import supervisor  # late, as is `namespaces`: the stage `inside` needs neither

    supervisor.prepare(setup)
    if setup.level == "namespaces":
        from .namespaces import start

        child = start(setup)
    else:
        child = os.fork()
    if child:
        os.close(0)
        supervisor.supervise(setup, child)
    supervisor.release()
    if setup.level == "bubblewrap":
        os.execve(setup.command[0], setup.command, dict(os.environ))  # noqa: S606 - a list, no shell
    if setup.level == "rlimits-only":
        kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)
        lock_down(setup)
