import pytest

from tests.command import Workplace
from tests.fakes import ScriptedServer
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
