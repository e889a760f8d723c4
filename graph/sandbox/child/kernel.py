"""The Linux system calls that Python does not wrap, each raising OSError with the call's name."""

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_MNT_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1
_MOUNT_ATTR_NOSUID = 0x2
_CAPABILITY_VERSION_3 = 0x20080522

_MACHINES = {"x86_64": {"pivot_root": 155, "capset": 126}, "aarch64": {"pivot_root": 41, "capset": 91}}
_EVERYWHERE = {"mount_setattr": 442}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)
    return result


def raw_syscall(call: str, number: int, *arguments: object) -> int:
    """Make a system call by number. Integers are passed as C longs, anything else as ctypes has it."""
    longs = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *longs), call)


def _syscall(call: str, *arguments: object) -> int:
    table = {**_EVERYWHERE, **_MACHINES.get(os.uname().machine, {})}
    if call not in table:
        raise OSError(38, f"this sandbox knows no {os.uname().machine} system calls", call)
    return raw_syscall(call, table[call], *arguments)


def prctl(option: int, first: int = 0, second: object = 0) -> None:
    """Set a property of this process."""
    value = ctypes.c_ulong(second) if isinstance(second, int) else second
    _checked(_libc.prctl(option, ctypes.c_ulong(first), value, ctypes.c_ulong(0), ctypes.c_ulong(0)), "prctl")


def unshare(flags: int) -> None:
    """Move this process (for CLONE_NEWPID: its next child) into new namespaces."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount or change a mount."""
    arguments = source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()
    _checked(_libc.mount(*arguments), f"mount {target}")


def seal(path: str, *, recursive: bool) -> None:
    """Make a mount (and those below it) read-only and without setuid, keeping the flags that it already has."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    _syscall("mount_setattr", _AT_FDCWD, path.encode(), flags, ctypes.byref(attributes), ctypes.sizeof(attributes))


def pivot_into(path: str) -> None:
    """Make a mount the root of this mount namespace and detach the old root."""
    os.chdir(path)
    _syscall("pivot_root", b".", b".")  # old and new root at one place: the old one is then on top
    _checked(_libc.umount2(b".", _MNT_DETACH), "umount2")
    os.chdir("/")


def drop_capability_bounds() -> None:
    """Empty the bounding set, so that no later exec can give a capability back; a no-op without CAP_SETPCAP."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno != 1:  # EINVAL: past the last one that this kernel knows
                return


def drop_capabilities() -> None:
    """Empty the effective, permitted, inheritable and ambient sets."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _syscall("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
