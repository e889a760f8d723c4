import pytest

from tests.command import Workplace
from tests.unit.agentflow.conftest import Call


def test_every_value_is_shown_with_its_source(call: Call, place: Workplace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTFLOW_BUDGETS__MAX_TURNS", "7")
    lines = call("config", "show", "--set", "models.planner.top_p=0.9").splitlines()
    assert 'models.planner.model = "test-model"  # agentflow.toml (models.default)' in lines
    assert "models.planner.top_p = 0.9  # --set" in lines
    assert "models.planner.temperature = 0.7  # default" in lines
    assert "models.verifier.max_retries = 0  # agentflow.toml (models.default)" in lines
    assert "budgets.max_turns = 7  # environment" in lines
    assert 'tools.custom = ["tests.counting_tool:count_calls"]  # agentflow.toml' in lines
    assert "# local.threads is not set" in lines


def test_no_secret_is_shown(call: Call, place: Workplace, monkeypatch: pytest.MonkeyPatch):
    planted = [
        'tools.mcp.files.env.ANYTHING="s3cret"',
        'tools.mcp.files.headers.Authorization="Bearer s3cret"',
        'tools.mcp.web.url="https://mcp.test/sse?api_key=s3cret&x=1"',
        'tools.mcp.local.args=["serve", "--api-key", "s3cret", "--port", "80", "--token=s3cret", "API_KEY=s3cret"]',
        'tools.mcp.remote.args=["-H", "Authorization: Bearer s3cret", "https://mcp.test/?access_token=s3cret"]',
        'tools.mcp.remote.env={KIND = "s3cret"}',
        "storage.url=postgresql://user:s3cret@db.test/runs",
    ]
    monkeypatch.setenv("TAVILY_API_KEY", "s3cret")
    output = call("config", "show", *(part for setting in planted for part in ("--set", setting)))
    assert "s3cret" not in output
    assert 'storage.url = "postgresql://user:(hidden)@db.test/runs"  # --set' in output
    assert 'tools.mcp.web.url = "https://mcp.test/sse?api_key=(hidden)&x=1"  # --set' in output
    assert "models.planner.max_tokens = 512" in output
    shown = '["serve", "--api-key", "(hidden)", "--port", "80", "--token=(hidden)", "API_KEY=(hidden)"]'
    assert f"tools.mcp.local.args = {shown}  # --set" in output
    assert 'tools.mcp.remote.env.KIND = "(hidden)"  # --set' in output
