"""What a server is started with, and what can be wrong with that."""

import json
import socket
from pathlib import Path

import pytest

from graph.config import load_config
from graph.errors import ConfigError
from graph.policies.registry import PolicyRegistry
from graph.serve_settings import ServeSettings
from tests.policy_directories import adapter_directory
from training.serve import VLLMServer
from training.serve_adapter import adapter_version
from training.serve_checks import adapter_rank, check_port, fitting_rank, free_port
from training.vllm_command import serve_command, serve_environment


def test_the_port_of_another_is_refused_on_both_families():
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        try:
            taken = socket.create_server((host, 0), family=family)
        except OSError:
            pytest.skip(f"no {host} here")
        with taken:
            port = taken.getsockname()[1]
            with pytest.raises(ConfigError, match=f"Port {port} on {host} .*already in use\\): choose another"):
                check_port(host, port)
        check_port(host, free_port(host))
    with pytest.raises(ConfigError, match=r"serve\.host"):
        free_port("192.0.2.1")


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:9"), ("0.0.0.0", "http://127.0.0.1:9"), ("::", "http://[::1]:9")],
)
def test_the_address_is_one_that_this_machine_reaches(host: str, url: str, tmp_path: Path):
    assert VLLMServer("m", ServeSettings(host=host, port=9), log=tmp_path / "log").url == url


@pytest.mark.parametrize(("rank", "room"), [(1, 16), (16, 16), (17, 32), (64, 64), (256, 256)])
def test_there_is_room_for_the_adapters_rank(rank: int, room: int):
    assert fitting_rank(ServeSettings(), rank).max_lora_rank == room
    assert fitting_rank(ServeSettings(max_lora_rank=128), min(rank, 64)).max_lora_rank == 128


def test_the_rank_is_the_largest_of_any_layer(tmp_path: Path):
    file = adapter_directory(tmp_path / "a") / "adapter_config.json"
    file.write_text(json.dumps({"r": 8, "rank_pattern": {"q_proj": 24}}))
    assert adapter_rank(tmp_path / "a") == 24
    file.write_text("{}")
    with pytest.raises(ConfigError, match="no configuration of a PEFT LoRA adapter"):
        adapter_rank(tmp_path / "a")


def test_one_adapter_is_added_once_and_keeps_its_name(tmp_path: Path):
    registry = PolicyRegistry(tmp_path / "policies")
    trained = adapter_directory(tmp_path / "trained")
    for given in (str(trained), str(trained), "planner@v1", str(registry.path("planner@v1"))):
        assert adapter_version(given, "/models/base", registry, ServeSettings())[0] == "planner@v1"
    assert registry.names() == ["planner@v1"]
    (trained / "adapter_config.json").write_text(
        (trained / "adapter_config.json").read_text().replace('"lora_alpha": 16', '"lora_alpha": 32')
    )
    assert adapter_version(str(trained), "/models/base", registry, ServeSettings())[0] == "planner@v2"
    with pytest.raises(ConfigError, match=r"planner@v1 cannot be loaded: it belongs to /models/base"):
        adapter_version("planner@v1", "/models/another", registry, ServeSettings())


def test_the_users_flags_come_last_and_there_is_one_api_server(tmp_path: Path):
    settings = ServeSettings(flags=("--tensor-parallel-size", "2"))
    command = serve_command(tmp_path, "m", settings, 9)
    assert command[-2:] == ["--tensor-parallel-size", "2"]
    assert command[command.index("--api-server-count") + 1] == "1"


def test_the_key_is_passed_on_in_the_environment_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("OWN_KEY", "s3cret")
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    settings = ServeSettings(api_key_env="OWN_KEY")
    assert serve_environment("m", settings)["VLLM_API_KEY"] == "s3cret"
    assert "s3cret" not in " ".join(serve_command(tmp_path, "m", settings, 9))
    assert "VLLM_API_KEY" not in serve_environment("m", ServeSettings())
    monkeypatch.delenv("OWN_KEY")
    with pytest.raises(ConfigError, match="OWN_KEY is not set"):
        serve_environment("m", settings)


@pytest.mark.parametrize(("full_weights", "mode"), [(False, "0"), (True, "1")])
def test_development_endpoints_are_on_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, full_weights: bool, mode: str
):
    monkeypatch.setenv("VLLM_SERVER_DEV_MODE", "1")
    assert serve_environment("m", ServeSettings(full_weights=full_weights))["VLLM_SERVER_DEV_MODE"] == mode


def test_a_key_in_place_of_its_variable_is_not_repeated():
    with pytest.raises(ValueError, match="it takes the name of an environment variable"):
        ServeSettings(api_key_env="sk-s3cret")


def test_a_keys_variable_may_have_our_prefix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("AGENTFLOW_SERVER_KEY", "s3cret")
    file = tmp_path / "agentflow.toml"
    file.write_text('[serve]\napi_key_env = "AGENTFLOW_SERVER_KEY"\n')
    assert load_config(file).config.serve.api_key_env == "AGENTFLOW_SERVER_KEY"
