"""Which process drives a run, and whether it still does.

A run whose process was killed leaves no other mark: its row says `running` for ever.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from graph.engine.machine import birth_mark
from graph.errors import ConfigError

_driven: set[str] = set()
_lock = threading.Lock()


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


def is_elsewhere(owner: str) -> bool:
    """Whether that process belongs to another machine or container, so that nobody here can tell if it still runs."""
    return owner.partition(" ")[0] != _place()


@contextmanager
def drive(run: str) -> Iterator[None]:
    """Drive a run in this process, where nobody else may while the block lasts, in no thread.

    Raises:
        ConfigError: it is driven already.
    """
    with _lock:
        if run in _driven:
            raise ConfigError(f"The run {run} still goes on in this process: wait for its end, or stop it.")
        _driven.add(run)
    try:
        yield
    finally:
        with _lock:
            _driven.discard(run)


def host_name(owner: str) -> str:
    """Return the machine's name, for messages."""
    return owner.partition("/")[0]


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
