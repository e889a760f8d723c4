"""Runs a command, and ends it with everything it started when the process that wanted it is gone.

    python guard.py COMMAND [ARGUMENT ...]    with a pipe as standard input, in a process group of its own

The other end of the pipe is the owner's. When it closes, because the owner closed it or was killed, the process group
is asked to stop and, after ten seconds, killed. When the command ends by itself, what it left in the group is killed
too. Run as a file by its path, on nothing but the standard library, so that it starts at once in any interpreter.
"""

import os
import signal
import subprocess
import sys
import threading

GRACE_SECONDS = 10.0


def main() -> None:
    """Never returns: this process is part of the group that it kills at the end."""
    # The group's SIGTERM reaches this process too. Unlike an ignored signal, a handler is not inherited by the command.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_the_owner, args=(child,), daemon=True).start()
    child.wait()
    os.killpg(0, signal.SIGKILL)


def _end_with_the_owner(child: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()  # returns at the end of file
    os.killpg(0, signal.SIGTERM)
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
