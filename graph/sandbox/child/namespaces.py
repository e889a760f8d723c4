"""The `namespaces` level: a new user, process, network, IPC, host name and mount namespace, without helper programs.

The supervisor unshares and its first child becomes process 1 of the new process namespace: when that ends, the kernel
kills whatever else lives there, however it was started. Process 1 builds a root of read-only binds and two small
in-memory directories, locks itself down, and only then forks the process that runs the code.
"""

import os
import signal

from . import kernel
from .kernel import MS_BIND, MS_NODEV, MS_NOSUID, MS_PRIVATE, MS_REC, mount, pivot_into, prctl, seal, unshare
from .lockdown import DEVICES, SHARED_MEMORY, lock_down
from .setup import Setup

DISK_MB = 256
"""Size of the private directory."""
SHARED_MB = 64
"""Size of /dev/shm."""
INSIDE_ID = 1000
"""User and group id inside: an ordinary user's."""
_STAGE = "/proc"
# The new root is mounted over a directory that exists everywhere and holds nothing that is bound into it.


def start(setup: Setup) -> int:
    """Fork process 1 of new namespaces. Returns its id to the supervisor, and 0 in the process that runs the code."""
    _enter_user_namespace(setup)
    first = os.fork()
    if first:
        return first
    prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # without a handler, process 1 cannot be signalled from inside
    _build_root(setup)
    lock_down(_inside(setup))
    prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user clears it
    main = os.fork()
    if main:
        _reap_until(main)
    return 0


def _inside(setup: Setup) -> Setup:
    inside = Setup(**vars(setup))
    inside.drop_to = None if setup.drop_to is None else INSIDE_ID
    return inside


def _enter_user_namespace(setup: Setup) -> None:
    user, group = os.geteuid(), os.getegid()
    unshared, unshared_end = os.pipe()
    supervisor = os.getpid()
    mapper = os.fork()
    if mapper == 0:  # ids are mapped from outside, where a root launcher still may map a second user
        os.close(unshared_end)
        os.read(unshared, 1)
        os._exit(_map_ids(supervisor, user, group, setup.drop_to))
    os.close(unshared)
    try:
        unshare(
            kernel.CLONE_NEWUSER
            | kernel.CLONE_NEWPID
            | kernel.CLONE_NEWNET
            | kernel.CLONE_NEWIPC
            | kernel.CLONE_NEWUTS
            | kernel.CLONE_NEWCGROUP
        )
    finally:
        os.close(unshared_end)
        _, status = os.waitpid(mapper, 0)
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise OSError(code, os.strerror(code), "uid_map")


def _map_ids(process: int, user: int, group: int, drop_to: int | None) -> int:
    if drop_to is None:
        maps = {"setgroups": "deny", "uid_map": f"{INSIDE_ID} {user} 1", "gid_map": f"{INSIDE_ID} {group} 1"}
    else:
        second = f"\n{INSIDE_ID} {drop_to} 1"
        maps = {"uid_map": f"0 {user} 1{second}", "gid_map": f"0 {group} 1{second}"}
    try:
        for name, text in maps.items():
            with open(f"/proc/{process}/{name}", "w", encoding="ascii") as file:
                file.write(text)
    except OSError as error:
        return error.errno or 1
    return 0


def _build_root(setup: Setup) -> None:
    unshare(kernel.CLONE_NEWNS)
    mount("none", "/", "none", MS_REC | MS_PRIVATE)
    mount("tmpfs", _STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m")
    owner = f"uid={INSIDE_ID},gid={INSIDE_ID}"
    for path, size in ((setup.home, DISK_MB), (SHARED_MEMORY, SHARED_MB)):
        os.makedirs(_STAGE + path)
        options = f"mode=700,size={size}m,nr_inodes=20k,{owner}"
        mount("tmpfs", _STAGE + path, "tmpfs", MS_NOSUID | MS_NODEV, options)
    for path in setup.readable:
        _bind(path)
        seal(_STAGE + path, recursive=True)
    for path in DEVICES:
        _bind(path)
    for name, target in setup.links.items():
        os.symlink(target, _STAGE + name)
    seal(_STAGE, recursive=False)
    pivot_into(_STAGE)


def _bind(path: str) -> None:
    target = _STAGE + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(path, target, "none", MS_BIND | MS_REC)


def _reap_until(main: int) -> None:
    """Stay as process 1 until the process that runs the code ends, and end with its status as a shell gives it."""
    while True:
        ended, status = os.wait()
        if ended == main:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
