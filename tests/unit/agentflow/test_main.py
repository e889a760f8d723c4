import subprocess
import sys
from importlib.metadata import version

import pytest

from agentflow.main import _report_bug
from tests.command import Workplace
from tests.unit.agentflow.conftest import Call

COMMANDS = (
    "ask", "setup", "doctor", "config show", "corpus build", "corpus search", "engine status", "engine stop",
    "runs list", "runs show", "runs resume", "runs fork", "runs delete",
)  # fmt: skip


def test_version(call: Call):
    assert call("--version") == f"agentflow {version('agentflow')}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(call: Call, command: str):
    assert "Usage: " in call(*command.split(), "--help")


def test_help_loads_nothing_heavy():
    code = "import sys, agentflow.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "typer" in loaded
    assert not {"pydantic", "langchain_core", "langgraph", "sqlalchemy", "openai", "httpx"} & set(loaded)


def test_an_error_that_nobody_foresaw_is_a_sentence(capsys: pytest.CaptureFixture[str]):
    try:
        {}["missing"]
    except KeyError as error:
        _report_bug(KeyError, error, error.__traceback__)
    said = capsys.readouterr().err
    assert said.startswith("This is a bug in agentflow (KeyError in test_main.py, line ")
    assert "--debug" in said
    assert "Traceback" not in said


def test_debug_shows_where_an_error_comes_from(place: Workplace):
    done = place.run("ask", "q", "--debug")
    assert done.returncode == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("No model server answers at")
