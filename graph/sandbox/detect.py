"""Finding the strongest isolation that holds on this machine, by trying to break it."""

import asyncio
import platform
import socket
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from graph.errors import SandboxError
from graph.sandbox.bubblewrap import bubblewrap_program
from graph.sandbox.launcher import SandboxStartError, run_python
from graph.sandbox.level import Level
from graph.sandbox.result import RunResult
from graph.tools.settings import PythonSettings

PROBE = """
import os, socket
broken = []
if os.getuid() == 0:
    broken.append("runs as root")
try:
    open({canary!r}).close()
    broken.append("files of this machine can be read")
except OSError:
    pass
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=5).close()
    broken.append("the network can be reached")
except OSError:
    pass
try:
    os.mkdir("/agentflow")
    broken.append("the root directory can be written")
except OSError:
    pass
print(", ".join(broken) or "holds")
"""
"""Attacks on a level; prints what got through, or `holds`. To be formatted with `canary` (a path) and `port`."""
_PROBE_SECONDS = 20.0
_PROBE_MEMORY_MB = 512

_lock = threading.Lock()
_found: dict[str, Level | SandboxError] = {}


def detect_level(settings: PythonSettings) -> Level:
    """Return the strongest level that holds here, trying each out once per process.

    Takes some tenths of a second the first time: call it in a thread from asynchronous code. Raises SandboxError, with
    what to do, where no level holds that the settings allow.
    """
    with _lock:
        if settings.sandbox not in _found:
            _found[settings.sandbox] = _detect(settings)
        found = _found[settings.sandbox]
    if isinstance(found, SandboxError):
        raise SandboxError(*found.args) from found.__cause__
    return found


def _detect(settings: PythonSettings) -> Level | SandboxError:
    if platform.system() != "Linux":
        return SandboxError(f"The python tool needs Linux, and this is {platform.system()}; use a Linux machine.")
    reasons = []
    for level in (Level.BUBBLEWRAP, Level.NAMESPACES):
        reason = why_not(level)
        if reason is None:
            return level
        reasons.append(f"{level.value}: {reason}")
    if settings.sandbox == "rlimits-only":
        return Level.RLIMITS_ONLY
    return SandboxError(
        f"No isolation for the python tool works here ({'; '.join(reasons)}); {_remedy()}, or accept a process without "
        'file and network isolation by setting tools.python.sandbox = "rlimits-only".'
    )


def why_not(level: Level) -> str | None:
    """Try a level out with code that attacks it; return what is wrong with it, or None if it holds."""
    if level is Level.BUBBLEWRAP and bubblewrap_program() is None:
        return "not installed"
    try:
        result = _try_out(level)
    except SandboxStartError as error:
        return error.reason
    except (SandboxError, OSError) as error:
        return str(error)
    said = result.stdout.strip()
    return None if said == "holds" else said or result.stderr.strip() or f"the trial ended with {result.exit_status}"


def _try_out(level: Level) -> RunResult:
    with (
        tempfile.NamedTemporaryFile(prefix="agentflow-canary-") as canary,
        socket.create_server(("127.0.0.1", 0)) as listener,
        ThreadPoolExecutor(1) as thread,  # the caller's thread may have a running event loop
    ):
        Path(canary.name).chmod(0o644)
        code = PROBE.format(canary=canary.name, port=listener.getsockname()[1])
        run = run_python(code, timeout=_PROBE_SECONDS, memory_mb=_PROBE_MEMORY_MB, level=level)
        return thread.submit(asyncio.run, run).result()


def _remedy() -> str:
    """Say what would make a level work on this machine."""
    for name, wanted in (
        ("kernel/apparmor_restrict_unprivileged_userns", "0"),
        ("kernel/unprivileged_userns_clone", "1"),
    ):
        path = Path("/proc/sys") / name
        if path.exists() and path.read_text(encoding="ascii").strip() != wanted:
            return f"an administrator can allow it with `sysctl {name.replace('/', '.')}={wanted}`"
    if bubblewrap_program() is None:
        return "install the package `bubblewrap`"
    return "allow user namespaces (in a container: run it with a seccomp profile that lets `unshare` through)"
