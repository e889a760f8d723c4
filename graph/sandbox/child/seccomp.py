"""A filter on system calls that a computation does not need and that have no namespace, or widen the kernel's surface.

Network namespaces do not cover every socket family (AF_VSOCK reaches the host of a virtual machine), and memory held by
memfd, System V segments or message queues belongs to no process: both are why the filter is part of the promises.
"""

import ctypes
import errno
import os

from .kernel import PR_SET_SECCOMP, prctl

_SECCOMP_MODE_FILTER = 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_FIRST_ARGUMENT = 0, 4, 16
_X32_BIT = 0x40000000
_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag that clone takes
_CLONE3 = 435
_SOCKET_FAMILIES = (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6: all three end at the network namespace

_EVERYWHERE = (
    *range(425, 434),  # io_uring_*, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick
    438,  # pidfd_getfd
    440,  # process_madvise
    *range(442, 444),  # mount_setattr, quotactl_fd
    447,  # memfd_secret
    467,  # open_tree_attr
)
# fmt: off
_X86_64 = (
    165, 166, 155, 161,  # mount, umount2, pivot_root, chroot
    272, 308,  # unshare, setns
    101, 310, 311, 312,  # ptrace, process_vm_readv, process_vm_writev, kcmp
    321, 298, 323,  # bpf, perf_event_open, userfaultfd
    250, 248, 249,  # keyctl, add_key, request_key
    246, 320, 175, 313, 176, 169,  # kexec_load, kexec_file_load, init_module, finit_module, delete_module, reboot
    167, 168, 103, 163, 179,  # swapon, swapoff, syslog, acct, quotactl
    303, 304, 300,  # name_to_handle_at, open_by_handle_at, fanotify_init
    319, 29, 68, 64, 240,  # memfd_create, shmget, msgget, semget, mq_open
    170, 171, 164, 227, 305, 159, 153,  # host and domain name, the clocks, vhangup
    172, 173, 154, 134, 136, 139,  # iopl, ioperm, modify_ldt, uselib, ustat, sysfs
    212, 180,  # lookup_dcookie, nfsservctl
    279, 256,  # move_pages, migrate_pages
)
_AARCH64 = (
    40, 39, 41, 51,
    97, 268,
    117, 270, 271, 272,
    280, 241, 282,
    219, 217, 218,
    104, 294, 105, 273, 106, 142,
    224, 225, 116, 89, 60,
    264, 265, 262,
    279, 194, 186, 190, 180,
    161, 162, 170, 112, 266, 171, 58,
    18, 42,
    239, 238,
)
# fmt: on
# Calls whose first argument is a process: kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, prlimit64,
# sched_setaffinity, sched_setparam, sched_setscheduler, sched_setattr.
_X86_64_ON_PROCESSES = (62, 200, 234, 129, 297, 302, 203, 142, 144, 314)
_AARCH64_ON_PROCESSES = (129, 130, 131, 138, 240, 261, 122, 118, 119, 274)
_PIDFD_SEND_SIGNAL = 424
# Audit architecture, refused calls, socket, clone, calls on processes.
_MACHINES = {
    "x86_64": (0xC000003E, _X86_64, 41, 56, _X86_64_ON_PROCESSES),
    "aarch64": (0xC00000B7, _AARCH64, 198, 220, _AARCH64_ON_PROCESSES),
}

_Instruction = tuple[int, int, int, int]


class _Filter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Filter)))


def _refuse(number: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)


def program(machine: str, process: int | None = None) -> list[_Instruction]:
    """Return the filter as (code, jump if true, jump if false, k); raises OSError for an unknown machine.

    `process`: without namespaces, the id of the process that runs the code. It may then signal no other process, and
    make no socket but pairs.
    """
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"this sandbox knows no {machine} system calls", "seccomp")
    architecture, refused, socket, clone, on_processes = _MACHINES[machine]
    lines: list[_Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        _refuse(errno.ENOSYS),  # the machine's 32-bit calls have other numbers
        (_LOAD, 0, 0, _OFFSET_NUMBER),
    ]
    if machine == "x86_64":
        lines += [(_AT_LEAST, 0, 1, _X32_BIT), _refuse(errno.ENOSYS)]
    without_namespaces = () if process is None else (socket, _PIDFD_SEND_SIGNAL)
    for number in (*refused, *_EVERYWHERE, *without_namespaces):
        lines += [(_EQUAL, 0, 1, number), _refuse(errno.EPERM)]
    # clone3 hides its flags behind a pointer; without it the C library falls back to clone.
    lines += [(_EQUAL, 0, 1, _CLONE3), _refuse(errno.ENOSYS)]
    lines += [(_EQUAL, 0, 4, clone), (_LOAD, 0, 0, _OFFSET_FIRST_ARGUMENT)]
    lines += [(_ANY_BIT, 0, 1, _NEW_NAMESPACES), _refuse(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    lines += [(_EQUAL, 0, 6, socket), (_LOAD, 0, 0, _OFFSET_FIRST_ARGUMENT)]
    lines += [(_EQUAL, 3 - place, 0, family) for place, family in enumerate(_SOCKET_FAMILIES)]
    lines += [_refuse(errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    for number in () if process is None else on_processes:
        lines += [(_EQUAL, 0, 5, number), (_LOAD, 0, 0, _OFFSET_FIRST_ARGUMENT)]
        lines += [(_EQUAL, 2, 0, process or 0), (_EQUAL, 1, 0, 0), _refuse(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def restrict(*, namespaces: bool) -> None:
    """Install the filter for this process and its descendants. Needs no_new_privs; raises OSError where refused."""
    lines = program(os.uname().machine, None if namespaces else os.getpid())
    instructions = (_Filter * len(lines))(*(_Filter(*line) for line in lines))
    prctl(PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(lines), instructions)))
