"""Privileges and limits that a process gives up for good, inherited by all that it starts."""

import contextlib
import os
import resource

from . import landlock, seccomp
from .kernel import PR_SET_NO_NEW_PRIVS, drop_capabilities, drop_capability_bounds, prctl
from .setup import Setup

FILE_BYTES = 64 << 20
"""Size of one file."""
OPEN_FILES = 128
"""Also bounds the kernel's socket buffers, which count as nobody's memory."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the C library's fixed place for semaphores, private inside


def lock_down(setup: Setup) -> None:
    """Drop privileges, then set every limit and filter of the level. Raises OSError where one is refused."""
    drop_capability_bounds()
    if setup.drop_to is not None:
        os.setgroups([])
        os.setresgid(setup.drop_to, setup.drop_to, setup.drop_to)
        os.setresuid(setup.drop_to, setup.drop_to, setup.drop_to)
    drop_capabilities()
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    _limit(setup)
    if setup.level == "namespaces":
        landlock.restrict(readable=setup.readable, listable=["/"], writable=[setup.home, SHARED_MEMORY, *DEVICES])
    elif setup.level == "rlimits-only":
        with contextlib.suppress(OSError):  # more than is promised: this level is for machines that may have none of it
            landlock.restrict(readable=setup.readable, listable=[], writable=[setup.home, *DEVICES])
    seccomp.restrict(namespaces=setup.level != "rlimits-only")


def _limit(setup: Setup) -> None:
    memory = setup.memory_mb << 20
    limits = {
        resource.RLIMIT_CPU: setup.cpu_seconds,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_NPROC: setup.tasks,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for limit, value in limits.items():
        _, hard = resource.getrlimit(limit)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (bound, bound))
