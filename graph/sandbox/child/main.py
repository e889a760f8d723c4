"""The two stages of a run's processes: `outside` builds the sandbox and supervises it, `inside` runs the code."""

import errno
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
        _check_readable(setup)
    except OSError as error:
        report(setup.results, FAILED, f"{error.filename or 'setting up'}: {error.strerror}".encode())
        os._exit(1)
    report(setup.results, READY)
    code = receive_code()
    if code is None:
        os._exit(1)
    run_script(code, setup)


def _check_readable(setup: Setup) -> None:
    for path in setup.readable:
        if not os.access(path, os.R_OK):  # a root launcher's run has another user
            raise PermissionError(errno.EACCES, "not readable for the unprivileged user of the sandbox", path)


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
        os.setsid()
        if setup.drop_to is not None:
            os.chown(setup.home, setup.drop_to, setup.drop_to)
        lock_down(setup)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)  # a change of user clears it
