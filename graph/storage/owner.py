"""Which process drives a run, and whether it still does.

A run whose process was killed leaves no other mark: its row says `running` for ever.
"""

import os
import socket

from graph.engine.machine import birth_mark


def this_process() -> str:
    """Return a mark of this process that no other process ever has."""
    return f"{_place()} {os.getpid()} {birth_mark(os.getpid())}"


def is_gone(owner: str | None) -> bool:
    """Whether the process with that mark has certainly ended. A process of another machine may still run."""
    if owner is None:
        return True
    place, _, rest = owner.partition(" ")
    pid, _, mark = rest.partition(" ")
    return place == _place() and birth_mark(int(pid)) != mark


def process_id(owner: str) -> str:
    """Return the process's id, for messages."""
    return owner.split(" ")[1]


def _place() -> str:
    """The machine and, as containers count processes for themselves, the namespace of process ids."""
    try:
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        namespace = ""
    return f"{socket.gethostname().replace(chr(32), chr(45))}/{namespace}"
