"""The filter's program, evaluated here as the kernel would, also for the machine that the tests do not run on."""

import errno

import pytest

from graph.sandbox.child.seccomp import program

_ALLOWED = 0x7FFF0000
_ERRNO = 0x00050000
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NUMBERS = {
    "x86_64": {"read": 0, "mount": 165, "ptrace": 101, "socket": 41, "clone": 56, "kill": 62, "tgkill": 234},
    "aarch64": {"read": 63, "mount": 40, "ptrace": 117, "socket": 198, "clone": 220, "kill": 129, "tgkill": 131},
}
_CLONE3 = 435
machines = pytest.mark.parametrize("machine", sorted(_NUMBERS))


def _verdict(lines: list[tuple[int, int, int, int]], *, number: int, architecture: int, argument: int = 0) -> int:
    memory = {0: number, 4: architecture, 16: argument & 0xFFFFFFFF}
    place = loaded = 0
    while True:
        code, yes, no, k = lines[place]
        place += 1
        if code == 0x06:
            return k
        if code == 0x20:
            loaded = memory[k]
            continue
        met = {0x15: loaded == k, 0x35: loaded >= k, 0x45: bool(loaded & k)}[code]
        place += yes if met else no


def _ask(machine: str, call: str, argument: int = 0, process: int | None = None) -> int:
    return _verdict(
        program(machine, process),
        number=_NUMBERS[machine][call],
        architecture=_ARCHITECTURES[machine],
        argument=argument,
    )


@machines
def test_ordinary_calls_pass(machine: str) -> None:
    assert _ask(machine, "read") == _ALLOWED
    assert _ask(machine, "clone", 0x01200011) == _ALLOWED
    assert _ask(machine, "kill", 2**32 - 1) == _ALLOWED


@machines
@pytest.mark.parametrize("call", ["mount", "ptrace"])
def test_privileged_calls_are_refused(machine: str, call: str) -> None:
    assert _ask(machine, call) == _ERRNO | errno.EPERM


@machines
@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_no_namespace_by_clone(machine: str, flag: int) -> None:
    assert _ask(machine, "clone", flag | 17) == _ERRNO | errno.EPERM
    lines = program(machine)
    assert _verdict(lines, number=_CLONE3, architecture=_ARCHITECTURES[machine]) == _ERRNO | errno.ENOSYS


@machines
@pytest.mark.parametrize(
    ("family", "allowed"), [(1, True), (2, True), (10, True), (16, False), (38, False), (40, False)]
)
def test_socket_families(machine: str, family: int, allowed: bool) -> None:
    assert _ask(machine, "socket", family) == (_ALLOWED if allowed else _ERRNO | errno.EAFNOSUPPORT)
    assert _ask(machine, "socket", family, process=77) == _ERRNO | errno.EPERM


@machines
@pytest.mark.parametrize("call", ["kill", "tgkill"])
def test_without_namespaces_only_the_code_itself_is_signalled(machine: str, call: str) -> None:
    assert _ask(machine, call, 77, process=77) == _ALLOWED
    assert _ask(machine, call, 0, process=77) == _ALLOWED
    for other in (1, 78, -1):
        assert _ask(machine, call, other, process=77) == _ERRNO | errno.EPERM
    assert _ask(machine, "read", 1, process=77) == _ALLOWED


@machines
def test_foreign_architectures_are_refused(machine: str) -> None:
    lines = program(machine)
    for foreign in (0x40000003, 0x40000028):
        assert _verdict(lines, number=0, architecture=foreign) == _ERRNO | errno.ENOSYS
    if machine == "x86_64":
        x32 = _verdict(lines, number=0x40000000 | 165, architecture=_ARCHITECTURES[machine])
        assert x32 == _ERRNO | errno.ENOSYS


def test_unknown_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="riscv64"):
        program("riscv64")
