"""Attacks on every promise of docs/sandbox.md. Each prints ESCAPED where it gets through, and `tried` at its end."""

# ruff: noqa: ASYNC220, ASYNC240 - a test may block its own loop

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from graph.sandbox import Level
from tests.sandbox_levels import EVERY, ISOLATED, SECRET, launcher, run

every = pytest.mark.parametrize("level", EVERY)
isolated = pytest.mark.parametrize("level", ISOLATED)
_PRELUDE = """
import ctypes, os, sys

libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, action):
    try:
        result = action()
    except (OSError, ValueError, AttributeError, LookupError) as error:
        print("refused:", name, error)
    else:
        print("ESCAPED:", name, repr(result)[:200])


def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


"""


async def _attack(code: str, level: Level, **limits: float) -> str:
    result = await run(_PRELUDE + textwrap.dedent(code) + "\nprint('tried')", level, **limits)
    assert result.stdout.endswith("tried\n"), (result.stdout, result.stderr, result.limit)
    assert "ESCAPED" not in result.stdout
    return result.stdout


@isolated
async def test_files_of_the_machine_cannot_be_read(level: Level, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text(SECRET)
    for path in (canary, *canary.parents):
        with contextlib.suppress(PermissionError):
            path.chmod(path.stat().st_mode | 0o055)
    paths = ["/etc/passwd", "/etc/shadow", "/etc/hostname", "/proc/1/environ", "/proc/self/environ", "/proc/mounts"]
    paths += ["/dev/mem", "/dev/kmsg", "/dev/vda", "/sys/kernel", "/run", "/var", str(Path.home() / ".bashrc")]
    paths += [str(canary), str(Path(__file__).resolve()), f"/proc/{os.getpid()}/environ"]
    paths += [f"/proc/{os.getpid()}/root{canary}", f"/sandbox/../..{canary}"]
    await _attack(
        f"""
        os.symlink({str(canary)!r}, "link")
        for path in {paths!r} + ["link"]:
            attempt("read " + path, lambda: open(path, "rb").read(10))
            attempt("list " + path, lambda: os.listdir(path))
        for name in ("pwd", "grp"):
            attempt(name, lambda: __import__(name).getpwall()[0])
        """,
        level,
    )


@isolated
async def test_nothing_outside_can_be_written(level: Level) -> None:
    await _attack(
        """
        for path in ("/x", "/etc/x", "/usr/lib/x", "/dev/x", os.path.dirname(os.__file__) + "/x", sys.path[-1] + "/x"):
            attempt("create " + path, lambda: open(path, "w"))
            attempt("mkdir " + path, lambda: os.mkdir(path))
        attempt("overwrite", lambda: open(os.__file__, "a"))
        attempt("unlink", lambda: os.unlink(os.__file__))
        attempt("chmod", lambda: os.chmod(os.__file__, 0o777))
        attempt("touch", lambda: os.utime(os.__file__))
        attempt("interpreter", lambda: open(sys.executable, "r+b"))
        """,
        level,
    )
    assert not Path("/x").exists()


@isolated
async def test_no_network(level: Level) -> None:
    name = f"agentflow-{os.getpid()}"
    with (
        tempfile.TemporaryDirectory(prefix="af-") as directory,
        socket.create_server(("127.0.0.1", 0)) as loopback,
        socket.create_server(("0.0.0.0", 0)) as everywhere,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        Path(directory).chmod(0o755)
        abstract.bind("\0" + name)
        abstract.listen()
        named.bind(f"{directory}/socket")
        Path(f"{directory}/socket").chmod(0o777)
        named.listen()
        datagrams.bind(("127.0.0.1", 0))
        datagrams.setblocking(False)
        await _attack(
            f"""
            import socket, urllib.request
            for address in (("127.0.0.1", {loopback.getsockname()[1]}), ("::1", {loopback.getsockname()[1]}),
                            ("127.0.0.1", {everywhere.getsockname()[1]}), ("1.1.1.1", 53), ("169.254.169.254", 80)):
                attempt(f"connect {{address}}", lambda: socket.create_connection(address, timeout=3))
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:  # may be sent on the sandbox's own loopback: what counts is that nobody receives it
                udp.sendto(b"x", ("127.0.0.1", {datagrams.getsockname()[1]}))
            except OSError:
                pass
            attempt("datagram outside", lambda: udp.sendto(b"x", ("1.1.1.1", 53)))
            attempt("name", lambda: socket.getaddrinfo("example.com", 80))
            attempt("page", lambda: urllib.request.urlopen("http://127.0.0.1:{loopback.getsockname()[1]}", timeout=3))
            for path in ("\\0{name}", "{directory}/socket", "/var/run/docker.sock", "/run/dbus/system_bus_socket"):
                attempt(f"unix {{path!r}}", lambda: socket.socket(socket.AF_UNIX).connect(path))
            for family in (16, 17, 38, 40):  # netlink, packet, alg, vsock
                attempt(f"family {{family}}", lambda: socket.socket(family, socket.SOCK_RAW))
            attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
            """,
            level,
        )
        with pytest.raises(BlockingIOError):
            datagrams.recv(1)


@every
async def test_environment_and_descriptors_of_the_parent_stay_outside(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with tempfile.TemporaryFile() as secret:
        secret.write(SECRET.encode())
        secret.flush()
        os.set_inheritable(secret.fileno(), True)
        output = await _attack(
            f"""
            print(sorted(os.environ))
            if any({SECRET[:5]!r} in value for value in os.environ.values()):
                print("ESCAPED: environment")
            kinds = []
            for number in range(256):
                try:
                    kinds.append((number, os.fstat(number).st_mode >> 12))
                except OSError:
                    continue
            print(kinds)
            if any(kind == 8 for number, kind in kinds):
                print("ESCAPED: a file was inherited")
            if [number for number, kind in kinds if number > 2][1:]:
                print("ESCAPED: more than the results pipe was inherited")
            """,
            level,
        )
    assert SECRET not in output


@isolated
async def test_key_in_the_environment_of_the_launcher_cannot_be_read(level: Level) -> None:
    code = """
    import os
    for number in ["self", *range(1, 5000), {parent}]:
        for name in ("environ", "mem", "cmdline", "maps", "status"):
            try:
                print(number, open(f"/proc/{{number}}/{{name}}", "rb").read(100000))
            except OSError:
                continue
    print("tried")
    """
    with launcher(level) as process:
        output, _ = process.communicate(textwrap.dedent(code).format(parent=process.pid), timeout=60)
    assert output.strip() == "tried"


@every
async def test_other_processes_cannot_be_touched(level: Level) -> None:
    ours = os.getpid()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True) as victim:
        try:
            await _attack(
                f"""
                import resource, signal
                inside = {{os.getpid(), os.getppid()}}
                for process in ({ours}, {victim.pid}, os.getppid()):
                    if process in inside and {level.value != "rlimits-only"}:
                        continue
                    attempt(f"signal {{process}}", lambda: os.kill(process, 0))
                    attempt(f"urgent {{process}}", lambda: os.kill(process, signal.SIGURG))
                    attempt(f"limits {{process}}", lambda: resource.prlimit(process, resource.RLIMIT_CORE, (0, 0)))
                    attempt(f"trace {{process}}", lambda: call("ptrace", 16, process, 0, 0))
                    attempt(f"read {{process}}", lambda: call("process_vm_readv", process, 0, 0, 0, 0, 0))
                    attempt(f"affinity {{process}}", lambda: os.sched_setaffinity(process, {{0}}))
                attempt("group", lambda: os.killpg({victim.pid}, 0))
                """,
                level,
            )
            assert victim.poll() is None
        finally:
            victim.kill()


@every
async def test_no_privileges_and_none_to_gain(level: Level) -> None:
    await _attack(
        """
        if 0 in (*os.getresuid(), *os.getresgid(), *os.getgroups()):
            print("ESCAPED: root inside")
        if libc.prctl(39, 0, 0, 0, 0) != 1:
            print("ESCAPED: new privileges are possible")
        header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        call("capget", header, sets)
        if any(sets):
            print("ESCAPED: capabilities", list(sets))
        attempt("root", lambda: os.setuid(0))
        attempt("groups", lambda: os.setgroups([0]))
        for flags in (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x10020000):
            attempt(f"unshare {flags:x}", lambda: call("unshare", flags))
        attempt("mount", lambda: call("mount", b"tmpfs", b"/sandbox", b"tmpfs", 0, None))
        attempt("remount", lambda: call("mount", b"none", b"/", None, 32, None))
        attempt("unmount", lambda: call("umount2", b"/sandbox", 2))
        attempt("chroot", lambda: os.chroot("."))
        attempt("device", lambda: os.mknod("disk", 0o60666, os.makedev(254, 0)))
        attempt("memory file", lambda: os.memfd_create("x"))
        attempt("shared segment", lambda: call("shmget", 0, 4096, 0o1600))
        add_key = 248 if os.uname().machine == "x86_64" else 217
        attempt("key", lambda: call("syscall", add_key, b"user", b"a", b"b", 1, -3))
        attempt("io_uring", lambda: call("syscall", 425, 1, None))
        attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
        """,
        level,
    )


@every
async def test_limits_cannot_be_raised(level: Level) -> None:
    output = await _attack(
        """
        import resource
        names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
        for name in ("AS", "CPU", "NPROC", "FSIZE", "NOFILE", "CORE"):
            number = getattr(resource, "RLIMIT_" + name)
            soft, hard = resource.getrlimit(number)
            print(name, hard)
            attempt(name, lambda: resource.setrlimit(number, (hard + 1, hard + 1)))
        """,
        level,
    )
    assert f"AS {1024 << 20}\n" in output
    assert "CPU 21\n" in output
    assert "CORE 0\n" in output
