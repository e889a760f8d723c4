"""Starting and ending the real vLLM."""

import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from graph.errors import ConfigError, ModelError
from graph.serve_settings import ServeSettings
from training.serve import VLLMServer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


def test_a_start_that_fails_says_why_in_vllms_words(vllm_python: Path, tiny_model: Path, tmp_path: Path) -> None:
    settings = ServeSettings(python=vllm_python, max_model_len=100_000, enforce_eager=True)
    server = VLLMServer(str(tiny_model), settings, log=tmp_path / "vllm.log")
    with pytest.raises(ModelError, match=r"max_model_len \(100000\) is greater than") as caught, server:
        pass
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "vllm.log") in str(caught.value)


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


def test_killing_the_owner_ends_vllm_and_all_its_processes(vllm_python: Path, tiny_model: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from graph.serve_settings import ServeSettings; "
        "from training.serve import VLLMServer; "
        "VLLMServer(sys.argv[2], ServeSettings(python=Path(sys.argv[1]), enforce_eager=True, max_model_len=512), "
        "log=Path(sys.argv[3])).start()"
    )
    log = tmp_path / "vllm.log"
    owner = subprocess.Popen([sys.executable, "-c", code, str(vllm_python), str(tiny_model), str(log)])
    deadline = time.monotonic() + 120
    while not (log.exists() and "(EngineCore pid=" in log.read_text(errors="replace")):
        assert owner.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline
        time.sleep(0.1)
    family = psutil.Process(owner.pid).children(recursive=True)
    assert len(family) >= 3
    owner.kill()
    owner.wait()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
