"""Attacks on every promise of docs/sandbox.md. Each prints ESCAPED where it gets through, and `tried` at its end."""

# ruff: noqa: ASYNC110, ASYNC220, ASYNC240 - a test may block its own loop

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from graph.sandbox import Level, run_python
from tests.sandbox_levels import EVERY, ISOLATED, processes_of, run

every = pytest.mark.parametrize("level", EVERY)
isolated = pytest.mark.parametrize("level", ISOLATED)
_SECRET = "sk-planted-secret"
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


async def _gone(launcher: int) -> bool:
    for _ in range(200):
        if not processes_of(launcher):
            return True
        await asyncio.sleep(0.05)
    return False


@isolated
async def test_files_of_the_machine_cannot_be_read(level: Level, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text(_SECRET)
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
    directory = tempfile.mkdtemp(prefix="af-")
    Path(directory).chmod(0o755)
    with (
        socket.create_server(("127.0.0.1", 0)) as loopback,
        socket.create_server(("0.0.0.0", 0)) as everywhere,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
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
    monkeypatch.setenv("OPENAI_API_KEY", _SECRET)
    with tempfile.TemporaryFile() as secret:
        secret.write(_SECRET.encode())
        secret.flush()
        os.set_inheritable(secret.fileno(), True)
        output = await _attack(
            f"""
            print(sorted(os.environ))
            if any({_SECRET[:5]!r} in value for value in os.environ.values()):
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
    assert _SECRET not in output


_LAUNCHER = """
import asyncio, sys
from graph.sandbox import Level, run_python

code = sys.stdin.read()
result = asyncio.run(run_python(code, timeout=60, memory_mb=1024, level=Level(sys.argv[1])))
print(result.stdout, result.stderr)
"""


def _launcher(level: Level, prologue: str = "") -> subprocess.Popen[str]:
    root = str(Path(__file__).resolve().parents[2])
    return subprocess.Popen(
        [sys.executable, "-c", prologue + _LAUNCHER, level.value],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=root,
        env={"PYTHONPATH": root, "PATH": os.environ["PATH"], "OPENAI_API_KEY": _SECRET},
    )


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
    with _launcher(level) as process:
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


@every
async def test_processes_are_limited(level: Level) -> None:
    code = """
    import os, time
    count = 0
    while count < 500:
        try:
            if os.fork() == 0:
                time.sleep(100)
                os._exit(0)
        except BlockingIOError:
            break
        count += 1
    count
    """
    result = await run(textwrap.dedent(code), level)
    assert result.value is not None
    assert 40 <= int(result.value) <= 64
    assert await _gone(os.getpid())


@every
async def test_memory_of_one_process_is_limited(level: Level) -> None:
    result = await run("x = bytearray(2 << 30)", level, memory_mb=512)
    assert result.stderr.endswith("MemoryError\n")
    assert result.exit_status == 1


@every
async def test_memory_of_all_processes_together_is_limited(level: Level) -> None:
    code = """
    import os, time
    for _ in range(8):
        if os.fork() == 0:
            block = bytearray(100 << 20)
            time.sleep(100)
    time.sleep(100)
    """
    result = await run(textwrap.dedent(code), level, memory_mb=384)
    assert result.limit == "memory"
    assert await _gone(os.getpid())


@every
async def test_file_size_is_limited(level: Level) -> None:
    result = await run("with open('big', 'wb') as file:\n    for _ in range(100): file.write(bytes(1 << 20))", level)
    assert "File too large" in result.stderr


@isolated
async def test_all_files_together_are_limited(level: Level) -> None:
    code = "for n in range(20):\n    with open(str(n), 'wb') as file: file.write(bytes(30 << 20))"
    result = await run(code, level)
    assert "No space left on device" in result.stderr


@every
async def test_endless_output_is_bounded_and_ended(level: Level) -> None:
    result = await run("while True: print('x' * 1000)", level, timeout=60)
    assert result.limit == "output"
    assert len(result.stdout) < 300_000
    assert result.stdout_truncated
    result = await run("import sys\nwhile True: sys.stderr.write('y' * 10000)", level, timeout=60)
    assert (result.limit, result.stderr_truncated) == ("output", True)


@every
async def test_endless_loop_ends_at_the_limit(level: Level) -> None:
    started = time.monotonic()
    result = await run("print('on', end='')\nwhile True: pass", level, timeout=1.5)
    assert (result.stdout, result.limit, result.timed_out) == ("on", "time", True)
    assert time.monotonic() - started < 10


@every
@pytest.mark.parametrize("ending", ["time.sleep(100)", "pass", "os._exit(0)", "1 / 0"])
async def test_nothing_outlives_a_run(level: Level, ending: str) -> None:
    code = f"""
    import os, signal, time
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                for number in range(1, 32):
                    if number not in (signal.SIGKILL, signal.SIGSTOP):
                        signal.signal(number, signal.SIG_IGN)
                time.sleep(100)
            os._exit(0)
    time.sleep(0.2)
    print("started", flush=True)
    {ending}
    """
    started = time.monotonic()
    result = await run(textwrap.dedent(code), level, timeout=2)
    assert result.stdout == "started\n"
    assert time.monotonic() - started < 20
    assert processes_of(os.getpid()) == []


@every
async def test_cancellation_kills_at_once(level: Level) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(100)"
    task = asyncio.create_task(run_python(code, timeout=90, memory_mb=512, level=level))
    while len(processes_of(os.getpid())) < 3:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_of(os.getpid()) == []
    assert time.monotonic() - started < 10


@every
async def test_cancellation_while_the_sandbox_is_built(level: Level) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    for delay in (0, 0, 0.005, 0.01, 0.02, 0.03, 0.05):
        task = asyncio.create_task(run_python("while True: pass", timeout=90, memory_mb=512, level=level))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await _gone(os.getpid())
    await asyncio.sleep(0.1)
    assert len(os.listdir("/proc/self/fd")) == descriptors


@every
async def test_a_killed_launcher_leaves_nothing(level: Level) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(100)"
    with _launcher(level) as process:
        assert process.stdin is not None
        process.stdin.write(code)
        process.stdin.close()
        whole = 3 if level is Level.RLIMITS_ONLY else 4
        while len(processes_of(process.pid)) < whole:
            assert process.poll() is None
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert await _gone(process.pid)


@every
async def test_settings_of_the_launcher_do_not_reach_inside(level: Level) -> None:
    prologue = """
import os, signal
os.umask(0o077)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGTERM})
"""
    code = "import os, signal\nprint(oct(os.umask(0)), signal.pthread_sigmask(0, []), int(signal.getsignal(15)))"
    with _launcher(level, prologue) as process:
        output, _ = process.communicate(code, timeout=60)
    assert output.strip() == "0o22 set() 0"


@every
async def test_the_private_directory_is_fresh_and_deleted(level: Level) -> None:
    code = "import os\nopen('kept', 'w').close()\nprint(os.getcwd())\nsorted(os.listdir('.'))"
    for _ in range(2):
        result = await run(code, level)
        assert result.value == "['kept', 'script.py']"
        assert not Path(result.stdout.strip()).exists()


@every
async def test_runs_do_not_see_each_other(level: Level) -> None:
    first = "import tempfile, time\nfor path in ('mark', tempfile.gettempdir() + '/mark2'): open(path, 'w').close()"
    first += "\ntime.sleep(1)"
    second = "import os, time\ntime.sleep(0.5)\n[os.path.exists(p) for p in ('mark', '/tmp/mark2', '/sandbox/mark')]"
    _, result = await asyncio.gather(run(first, level), run(second, level))
    assert result.value == "[False, False, False]"


@every
async def test_forged_results_are_only_data(level: Level) -> None:
    code = """
    import os
    for number in range(3, 256):
        try:
            os.write(number, b"\\nfailed eA==\\nvalue /////w==\\nfigure eA==\\nvalue \\xff\\n" + b"z" * 70000)
        except OSError:
            continue
    print("done")
    """
    result = await run(textwrap.dedent(code), level)
    assert result.stdout == "done\n"
    assert result.figures == ()
    assert result.exit_status == 0
