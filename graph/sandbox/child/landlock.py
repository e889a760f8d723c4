"""A Landlock domain: which paths this process and its descendants may still reach.

The mount namespace already hides everything else; this is the second wall, and it also cuts TCP, abstract sockets and
signals where the kernel is new enough. Rights that a kernel does not know are left out by its ABI version.
"""

import ctypes
import os
import stat

from .kernel import raw_syscall

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # one number on every architecture
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FIRST_RIGHTS = (1 << 13) - 1
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_MAKE_DEVICES = (1 << 6) | (1 << 11)  # character and block devices
_BIND_AND_CONNECT_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # Python 3.14 wants the layout of a packed structure named
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi_version() -> int:
    """Return the kernel's Landlock ABI; raises OSError where Landlock is absent or switched off."""
    return raw_syscall("landlock_create_ruleset", _CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)


def _file_rights(version: int) -> int:
    rights = _FIRST_RIGHTS
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        if version >= since:
            rights |= right
    return rights


def _allow(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        rule = _PathBeneath(allowed=rights, parent=descriptor)
        raw_syscall("landlock_add_rule", _ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def restrict(*, readable: list[str], listable: list[str], writable: list[str]) -> None:
    """Enter a domain that reads and executes `readable`, lists `listable`, may do all but make devices in `writable`.

    Needs no_new_privs. Raises OSError where Landlock is absent or switched off.
    """
    version = abi_version()
    handled = _file_rights(version)
    attributes = _RulesetAttributes(files=handled)
    size = 8
    if version >= 4:
        attributes.network, size = _BIND_AND_CONNECT_TCP, 16
    if version >= 6:
        attributes.scoped, size = _ABSTRACT_SOCKETS_AND_SIGNALS, 24
    ruleset = raw_syscall("landlock_create_ruleset", _CREATE_RULESET, ctypes.byref(attributes), size, 0)
    try:
        for path in readable:
            _allow(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
        for path in listable:
            _allow(ruleset, path, _READ_DIR)
        for path in writable:
            _allow(ruleset, path, handled & ~_MAKE_DEVICES)
        raw_syscall("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
