"""What `agentflow serve` refuses before it starts anything. What it starts is in tests/integration/test_serve.py."""

import json
from pathlib import Path

import pytest

from graph.errors import ConfigError
from graph.policies.registry import PolicyRegistry
from tests.command import Workplace
from tests.policy_directories import adapter_directory, weights_directory
from tests.unit.agentflow.conftest import Call


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(weights_directory(tmp_path / "base"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--", "--port", "9"), "--port is no flag for vLLM here: set serve.port"),
        (("--", "--api_key=s3cret"), "--api-key is no flag for vLLM here: set serve.api_key_env"),
        (("--", "--uds", "/tmp/x"), "--uds cannot be used here"),
        (("another",), "'another' is no flag: give one model"),
        (("--port", "70000"), "--port does not fit"),
        (("--name", ""), "--name does not fit"),
        (("--set", "serve.api_key_env=NO_SUCH_KEY"), "NO_SUCH_KEY is not set"),
        (("--adapter", "planner@v3"), "There is no policy planner@v3"),
        (("--adapter", "nowhere"), "nowhere"),
    ],
)
def test_what_does_not_fit_is_refused(call: Call, place: Workplace, model: str, options: tuple[str, ...], said: str):
    python = _python(place.directory, 'print("0.31.0+cpu")')
    with pytest.raises(ConfigError) as caught:
        call("serve", model, "--set", f"serve.python={python}", *options)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert not (place.directory / ".agentflow").exists()


@pytest.mark.parametrize("name", ["nowhere/at/all", "./nowhere", "a b"])
def test_a_model_that_is_none(call: Call, name: str):
    with pytest.raises(ConfigError, match="is no model: give a directory"):
        call("serve", name)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ('print("0.21.3")', "has vLLM 0.21.3, but 0.22 to 0.31 is supported"),
        ('print("0.32.0")', "has vLLM 0.32.0, but 0.22 to 0.31 is supported"),
        ("raise SystemExit(1)", "has no vLLM: run `make vllm-cpu`"),
    ],
)
def test_an_environment_with_another_vllm_or_none(call: Call, place: Workplace, model: str, code: str, said: str):
    with pytest.raises(ConfigError) as caught:
        call("serve", model, "--set", f"serve.python={_python(place.directory, code)}")
    assert said in str(caught.value)


def test_no_environment_at_all(call: Call, model: str):
    with pytest.raises(ConfigError, match="vLLM is not installed here: run `make vllm-cpu`"):
        call("serve", model)


def test_an_adapter_that_is_none_of_this_model_is_not_added(call: Call, place: Workplace, model: str, tmp_path: Path):
    adapter = adapter_directory(tmp_path / "trained", base="/models/another")
    with pytest.raises(ConfigError, match="belongs to /models/another"):
        call("serve", model, "--adapter", str(adapter))
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**config, "r": 512}))
    with pytest.raises(ConfigError, match="rank is 512, but vLLM loads adapters up to rank 256"):
        call("serve", model, "--adapter", str(adapter))
    assert PolicyRegistry(place.directory / ".agentflow/policies").names() == []


def _python(directory: Path, code: str) -> Path:
    """An interpreter in whose environment vLLM has the version that `code` prints."""
    script = directory / "python"
    script.write_text(f"#!/usr/bin/env python3\n{code}\n")
    script.chmod(0o755)
    return script
