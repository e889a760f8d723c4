"""An engine's life: started once, shared, found again after any kill, ended when idle or told to."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from graph.engine import EngineInfo, LocalSettings, engine_status, ensure_engine, running_engines, stop_engine
from graph.engine.home import EngineHome, all_homes

pytestmark = pytest.mark.engine

_START = """
import sys
from graph.engine import LocalSettings, ensure_engine
print(ensure_engine(LocalSettings.model_validate_json(sys.argv[1])).pid, flush=True)
"""


def start_elsewhere(settings: LocalSettings, **options: object) -> subprocess.Popen[str]:
    """Another command that needs the engine."""
    command = [sys.executable, "-c", _START, settings.model_dump_json()]
    root = Path(__file__).resolve().parents[2]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, **options)  # type: ignore[call-overload]


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def engine_processes() -> list[int]:
    """The engines of this test's cache directory."""
    cache = os.environ["AGENTFLOW_CACHE_DIR"]
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if "graph.engine.process" in (process.info["cmdline"] or [])
        and cache in process.info["cmdline"][-1]
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def home() -> EngineHome:
    (only,) = all_homes()
    return only


def chat(info: EngineInfo, **body: object) -> httpx.Response:
    return httpx.post(
        f"{info.base_url}/chat/completions",
        headers={"Authorization": f"Bearer {info.api_key}", "Connection": "close"},
        json={"messages": [{"role": "user", "content": "Count from 1 to 500."}], "max_tokens": 4} | body,
        timeout=120,
    )


def test_is_shared_and_quick_to_start(embedded: LocalSettings) -> None:
    assert engine_status(embedded) is None
    told: list[str] = []
    began = time.monotonic()
    info = ensure_engine(embedded, on_progress=told.append)
    assert time.monotonic() - began < 15
    assert len(told) == 1
    assert ensure_engine(embedded, on_progress=told.append) == info
    assert len(told) == 1
    other = start_elsewhere(embedded)
    assert other.communicate(timeout=60)[0].split() == [str(info.pid)]
    assert engine_status(embedded) == info
    assert running_engines() == [info]
    assert stop_engine(embedded)
    assert not stop_engine(embedded)
    assert not alive(info.pid)
    assert engine_status(embedded) is None


def test_is_closed_to_others(embedded: LocalSettings) -> None:
    info = ensure_engine(embedded)
    addresses = {c.laddr.ip for c in psutil.Process(info.pid).net_connections() if c.status == psutil.CONN_LISTEN}
    assert addresses == {"127.0.0.1"}
    assert stat.S_IMODE(home().state_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home().directory.stat().st_mode) == 0o700
    assert info.api_key not in repr(info)
    assert info.api_key not in " ".join(psutil.Process(info.pid).cmdline())
    for path in ("/v1/chat/completions", "/slots/0?action=save"):
        refused = httpx.post(f"http://127.0.0.1:{info.port}{path}", json={"messages": []}, timeout=30)
        assert refused.status_code == 401


def test_commands_at_once_get_one_engine(embedded: LocalSettings) -> None:
    commands = [start_elsewhere(embedded) for _ in range(4)]
    pids = {command.communicate(timeout=120)[0].strip() for command in commands}
    assert len(pids) == 1
    assert engine_processes() == [int(pids.pop())]


def test_a_killed_engine_is_replaced(embedded: LocalSettings) -> None:
    first = ensure_engine(embedded)
    os.kill(first.pid, signal.SIGKILL)
    second = ensure_engine(embedded)
    assert second.pid != first.pid
    assert second.api_key != first.api_key
    assert chat(second).status_code == 200


def test_a_frozen_engine_is_replaced(embedded: LocalSettings) -> None:
    first = ensure_engine(embedded)
    os.kill(first.pid, signal.SIGSTOP)
    second = ensure_engine(embedded)
    assert second.pid != first.pid
    assert not alive(first.pid)


@pytest.mark.parametrize("delay", [0.0, 0.15, 0.3, 0.6])
def test_a_command_killed_while_it_starts_one_leaves_nothing_lost(embedded: LocalSettings, delay: float) -> None:
    command = start_elsewhere(embedded)
    assert eventually(lambda: bool(all_homes()) and home().log_path.exists())
    time.sleep(delay)
    command.kill()
    command.communicate()
    info = ensure_engine(embedded)
    assert chat(info).status_code == 200
    # The other half started engine, if it lost the race for the lock, gives up by itself.
    assert eventually(lambda: engine_processes() == [info.pid])


def test_a_state_that_names_another_process_is_stale(embedded: LocalSettings) -> None:
    info = ensure_engine(embedded)
    state = home().read_state()
    assert state is not None
    os.kill(info.pid, signal.SIGKILL)
    assert eventually(lambda: not home().engine_lives())
    with subprocess.Popen(["sleep", "60"]) as bystander, socket.create_server(("127.0.0.1", 0)) as other:
        reused = state.model_copy(update={"pid": bystander.pid, "port": other.getsockname()[1]})
        home().write_state(reused)
        assert engine_status(embedded) is None
        assert not stop_engine(embedded)
        home().write_state(reused)
        assert ensure_engine(embedded).pid != bystander.pid
        assert bystander.poll() is None
        bystander.kill()


def test_the_terminal_does_not_reach_it(embedded: LocalSettings) -> None:
    command = start_elsewhere(embedded, start_new_session=True)
    # The pipe ends with the command: the engine holds nothing of it.
    pid = int(command.communicate(timeout=60)[0])
    for number in (signal.SIGINT, signal.SIGHUP):
        with pytest.raises(ProcessLookupError):
            os.killpg(command.pid, number)  # nobody of the command's group is left, so nobody hears its terminal
    os.kill(pid, signal.SIGINT)
    os.kill(pid, signal.SIGHUP)
    info = ensure_engine(embedded)
    assert info.pid == pid
    descriptors = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    assert not any("pipe:" in target or "/tty" in target or "/pts/" in target for target in descriptors)


def test_stops_when_idle_and_not_before(embedded: LocalSettings) -> None:
    info = ensure_engine(embedded.model_copy(update={"idle_seconds": 1.0}))
    answer = chat(info, max_tokens=150, ignore_eos=True)  # several seconds
    assert answer.json()["usage"]["completion_tokens"] == 150
    assert eventually(lambda: not alive(info.pid))
    assert home().read_state() is None
    longer = ensure_engine(embedded)
    assert ensure_engine(embedded.model_copy(update={"idle_seconds": 1.0})).pid == longer.pid
    assert eventually(lambda: not alive(longer.pid)), "a new idle time reaches a running engine"


def test_stop_breaks_off_a_request(embedded: LocalSettings) -> None:
    info = ensure_engine(embedded)
    outcome: list[object] = []

    def ask() -> None:
        try:
            outcome.append(chat(info, max_tokens=900, ignore_eos=True).status_code)
        except httpx.HTTPError as error:
            outcome.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(1.0)
    assert stop_engine()
    asking.join(timeout=30)
    assert not asking.is_alive()
    assert isinstance(outcome[0], httpx.HTTPError)
    assert home().read_state() is None


def test_a_crowded_engine_is_not_taken_for_a_frozen_one(embedded: LocalSettings) -> None:
    info = ensure_engine(embedded)

    def ask() -> None:
        # Cut off by the stop below.
        with contextlib.suppress(httpx.HTTPError):
            chat(info, max_tokens=900, ignore_eos=True, id_slot=2)

    waiting = [threading.Thread(target=ask) for _ in range(100)]
    for thread in waiting:
        thread.start()
    headers = {"Authorization": f"Bearer {info.api_key}"}
    metrics = f"http://127.0.0.1:{info.port}/metrics"
    assert eventually(lambda: "requests_deferred 99" in httpx.get(metrics, headers=headers, timeout=30).text)
    assert ensure_engine(embedded).pid == info.pid
    assert stop_engine()
    for thread in waiting:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in waiting)


def test_without_its_folder_it_ends_itself(embedded: LocalSettings) -> None:
    info = ensure_engine(embedded)
    home().state_path.unlink()
    assert eventually(lambda: not alive(info.pid))


def test_engines_of_different_settings_run_side_by_side(embedded: LocalSettings) -> None:
    small = ensure_engine(embedded)
    large = ensure_engine(embedded.model_copy(update={"context_per_slot": 2048}))
    assert {info.pid for info in running_engines()} == {small.pid, large.pid}
    assert stop_engine()
    assert running_engines() == []
