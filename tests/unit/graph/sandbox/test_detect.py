import asyncio
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from graph.errors import SandboxError
from graph.sandbox import Level, detect_level
from graph.sandbox.child.landlock import abi_version
from graph.sandbox.detect import PROBE, why_not
from graph.tools.settings import PythonSettings


async def test_detection_works_under_a_running_loop_and_is_kept() -> None:
    try:
        first = await asyncio.to_thread(detect_level, PythonSettings())
    except SandboxError:
        pytest.skip("no isolation works on this machine")
    assert first in (Level.BUBBLEWRAP, Level.NAMESPACES)
    assert detect_level(PythonSettings()) is first
    assert detect_level(PythonSettings(sandbox="rlimits-only")) is first


def _works(*command: str) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not _works("unshare", "--user", "--pid", "--net", "--fork", "true"), reason="no user namespaces")
def test_namespaces_hold_where_the_kernel_gives_them() -> None:
    try:
        abi_version()
    except OSError:
        pytest.skip("no Landlock")
    assert why_not(Level.NAMESPACES) is None


@pytest.mark.skipif(not _works("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"), reason="bwrap does not work")
def test_bubblewrap_holds_where_it_works() -> None:
    assert why_not(Level.BUBBLEWRAP) is None


@pytest.mark.skipif(bool(shutil.which("bwrap")), reason="bwrap is installed")
def test_bubblewrap_that_is_not_installed() -> None:
    assert why_not(Level.BUBBLEWRAP) == "not installed"


def test_the_trial_sees_what_gets_through(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.touch()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = PROBE.format(canary=str(canary), port=listener.getsockname()[1]).replace(
            "/agentflow", str(tmp_path / "x")
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    expected = ["files of this machine can be read", "the network can be reached", "the root directory can be written"]
    assert said.strip() == ", ".join([*(["runs as root"] if os.getuid() == 0 else []), *expected])
