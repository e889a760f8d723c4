import dataclasses
from pathlib import Path
from typing import Any

import pytest

from agentflow import model_checkup
from graph.config import FlowConfig
from graph.models.vllm_facts import VLLMFacts
from graph.policies.registry import PolicyRegistry
from tests.command import Workplace
from tests.fakes import ScriptedServer
from tests.policy_directories import adapter_directory, weights_directory
from tests.policy_server import PolicyServer
from tests.unit.agentflow.conftest import Call


def test_all_is_well(call: Call, place: Workplace, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TEST_KEY", "s3cret")
    place.write_config(server.url)
    output = call("doctor", "--set", "models.default.api_key_env=TEST_KEY")
    assert f"ok        model of all roles: test-model at {server.url}" in output
    assert "ok        tool count_calls: offered" in output
    assert "ok        key TEST_KEY: set" in output
    assert "ok        storage: .agentflow/runs.db can be written" in output
    assert "broken" not in output
    assert "s3cret" not in output


def test_what_is_broken_is_named_role_by_role(call: Call, place: Workplace, server: ScriptedServer):
    place.write_config(server.url)
    (place.directory / "file").touch()
    settings = (
        "models.verifier.base_url=http://127.0.0.1:9/v1",
        "models.generator.model=gpt-12",
        "models.planner.api_key_env=TEST_KEY",
        "storage.url=file/runs.db",
        'tools.enabled=["web_search"]',
    )
    output = call("doctor", *(part for setting in settings for part in ("--set", setting)), status=1)
    lines = {line.split(": ")[0]: line for line in output.splitlines()}
    assert lines["ok        model of analyzer, executor, generate"]
    assert "No model server answers" in lines["broken    model of verifier"]
    assert "set models.generator.model to one of test-model" in lines["broken    model of generator"]
    assert "TEST_KEY is not set" in lines["broken    model of planner"]
    assert lines["broken    key TEST_KEY"]
    assert "not offered" in lines["note      tool web_search"]
    assert "file cannot be written" in lines["broken    storage"]


def test_a_model_that_was_not_fetched(call: Call, place: Workplace):
    (place.directory / "agentflow.toml").unlink()
    output = call("doctor", "--set", "tools.enabled=[]", status=1)
    assert "broken    model of all roles: " in output
    assert "run `agentflow setup`" in output or "pip install" in output


def test_settings_that_cannot_be_read(call: Call, place: Workplace):
    (place.directory / "agentflow.toml").write_text("[budgets]\nmax_turn = 3\n")
    output = call("doctor", status=1)
    assert output.startswith("broken    settings: There is no setting budgets.max_turn in agentflow.toml")


class Vllm(PolicyServer):
    """A planner's server whose answers to calls are all alike: log-probabilities without the temperature."""

    def endpoint(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any] | None:
        match path:
            case "/version":
                return 200, {"version": "0.29.1"}
            case "/v1/unload_lora_adapter":
                return 404, {"detail": "Not Found"}
            case "/v1/chat/completions":
                top = [{"token": "a", "logprob": -1.0, "bytes": None}, {"token": "b", "logprob": -3.0, "bytes": None}]
                choice = {"token_ids": [1], "logprobs": {"content": [{"top_logprobs": top}]}}
                return 200, {"prompt_token_ids": [1], "choices": [choice]}
        return super().endpoint(path, body)


def planner_at(url: str, *more: str) -> list[str]:
    settings = ("models.planner.model=planner", f"models.planner.base_url={url}", *more)
    return [part for setting in settings for part in ("--set", setting)]


def test_a_planner_on_vllm_and_what_would_make_training_wrong(call: Call, place: Workplace, server: ScriptedServer):
    place.write_config(server.url)
    with Vllm({}, context=8192) as vllm:
        vllm.adapters["planner@v1"] = "/elsewhere/planner@v1"
        output = call("doctor", *planner_at(vllm.url, "models.planner.top_p=0.9"))
    assert f"ok        model of planner: planner at {vllm.url} (vLLM 0.29.1, context 8,192 tokens)" in output
    assert "base model /models/base; adapters cannot be loaded while it runs, loaded: planner@v1" in output
    assert "ok        planner's server: log-probabilities raw_logprobs; token ids returned" in output
    assert "ok        policy: the model as it is; none is promoted" in output
    notes = [line for line in output.splitlines() if line.startswith("note      training: ")]
    assert len(notes) == 3
    assert sum("top_p is 0.9" in note for note in notes) == 1
    assert "development endpoints" not in output


def test_the_policy_in_force_and_development_endpoints(
    call: Call, place: Workplace, server: ScriptedServer, tmp_path: Path
):
    place.write_config(server.url)
    registry = PolicyRegistry(tmp_path / "policies")
    for number in (1, 2):
        registry.add(adapter_directory(tmp_path / f"trained-{number}"), base_model="/models/base")
    registry.promote("planner@v2")
    here = f"policies.directory={registry.directory}"
    with Vllm({}, weights="default") as vllm:
        vllm.adapters["planner@v1"] = str(registry.path("planner@v1"))
        assert "broken    policy: the server cannot load planner@v2: start it with `agentflow serve`" in call(
            "doctor", *planner_at(vllm.url, here), status=1
        )
        output = call("doctor", *planner_at(vllm.url, here, "policies.use=planner@v1"))
        assert "policy: planner@v1 is loaded" in output
        assert "development endpoints are on, full weights can be loaded; it holds its own" in output
        gone = call("doctor", *planner_at(vllm.url, here, "policies.use=planner@v9"), status=1)
    assert "broken    policy: There is no policy planner@v9" in gone


@pytest.mark.parametrize(
    ("use", "facts", "said"),
    [
        ("promoted", {}, "ok: planner@v1 is not loaded; the next question loads it"),
        (
            "promoted",
            {"adapters": {"planner@v1": "/elsewhere/planner@v1"}},
            "broken: the server holds another planner@v1",
        ),
        ("promoted", {"base": "/models/other"}, "note: planner@v1 is not used: it belongs to /models/base"),
        ("planner@v1", {"base": "/models/other"}, "broken: planner@v1 cannot be used: it belongs to /models/base"),
        ("promoted", {"weights": "planner@v2"}, "broken: the server holds the weights of planner@v2"),
        ("base", {"weights": "planner@v2"}, "broken: the server holds the weights of planner@v2"),
        ("base", {"weights": "default"}, "ok: the model as it is"),
        ("planner@v2", {"weights": "planner@v2"}, "ok: planner@v2 is loaded"),
        ("planner@v2", {"weights": "default"}, "broken: the server does not hold planner@v2"),
    ],
)
def test_whether_the_server_answers_as_the_policy_that_is_asked_for(
    tmp_path: Path, use: str, facts: dict[str, Any], said: str
):
    registry = PolicyRegistry(tmp_path / "policies")
    registry.add(adapter_directory(tmp_path / "trained"))
    registry.add(weights_directory(tmp_path / "weights"), base_model="/models/base")
    registry.promote("planner@v1")
    config = FlowConfig.model_validate({"policies": {"directory": str(registry.directory), "use": use}})
    held = dict.fromkeys((field.name for field in dataclasses.fields(VLLMFacts)), None)
    held |= {"base": "/models/base", "adapters": {}, "runtime_adapters": True} | facts
    (finding,) = model_checkup._policy(config, VLLMFacts(**held))
    assert f"{finding.state}: {finding.text}".startswith(said)


def test_a_planner_elsewhere_gives_no_samples(call: Call, place: Workplace, server: ScriptedServer):
    place.write_config(server.url)
    output = call("doctor")
    assert "(OpenAI-compatible, context unknown)" in output
    assert f"note      training: {server.url} is no vLLM server and returns no token ids" in output


def test_a_server_that_does_not_answer_calls_is_no_end_of_the_report(call: Call, place: Workplace):
    with ScriptedServer({}, owned_by="vllm") as broken:
        place.write_config(broken.url)
        output = call("doctor")
    assert "note      planner's server: what it is set to could not be found out: " in output
    assert "ok        storage" in output
