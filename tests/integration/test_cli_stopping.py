"""Ctrl-C, SIGTERM and kill -9 on the real program, and going on afterwards."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graph.errors import ConfigError
from tests.command import Workplace, events, kinds, wait_for
from tests.fakes import ScriptedServer, command, plan
from tests.flows import scripts

SLOW = {"text": plan(), "delay": 60}
_AT_ONCE = 20
"""Seconds; generous for a busy machine, and far below what the stopped call would have taken."""


PATIENT_TOOL = """
import asyncio, os
from pathlib import Path
from langchain_core.tools import StructuredTool

async def wait(text: str) -> str:
    with open(os.environ["COUNTING_FILE"], "a") as file:
        file.write(text + "\\n")
    while text == "slow" and not Path("go").exists():
        await asyncio.sleep(0.05)
    return text

count_calls = StructuredTool.from_function(coroutine=wait, name="count_calls", description="Waits.")
"""
"""Counts its calls, and told `slow` waits until the test lets it go."""


def patient_place(directory: Path, server: ScriptedServer) -> Workplace:
    place = Workplace(directory, server.url)
    (directory / "patient.py").write_text(PATIENT_TOOL)
    config = directory / "agentflow.toml"
    config.write_text(config.read_text().replace("tests.counting_tool", "patient"))
    return place


def stop(process: "subprocess.Popen[str]", number: int) -> tuple[int, str, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=_AT_ONCE)
    return process.returncode, out, err


@pytest.fixture
def slow_planner(tmp_path: Path) -> Iterator[tuple[ScriptedServer, Workplace]]:
    """The planner's first answer takes a minute, the next comes at once."""
    with ScriptedServer(scripts(planner=[SLOW, plan()])) as server:
        yield server, Workplace(tmp_path, server.url)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_during_a_model_call(
    slow_planner: tuple[ScriptedServer, Workplace], number: signal.Signals, status: int
):
    server, place = slow_planner
    process = place.start("ask", "What?", "--json")
    wait_for(lambda: server.count("planner") == 1, "the planner was never asked")
    returned, out, err = stop(process, number)
    assert returned == status, err
    assert "Traceback" not in err
    assert (kinds(out)[-1], events(out)[-1]["stop"]) == ("done", "CANCELLED")
    run = re.search(r"agentflow runs resume (\S+)", err)
    assert run
    row = json.loads(place.call("runs", "list", "--json"))
    assert (row["id"], row["status"], row["stop"]) == (run[1], "cancelled", "CANCELLED")
    assert re.search(r"^answer +42$", place.call("runs", "resume", run[1]), re.MULTILINE)
    asked = {role: server.count(role) for role in ("analyzer", "planner", "executor", "verifier", "generator")}
    assert asked == {"analyzer": 1, "planner": 2, "executor": 1, "verifier": 1, "generator": 1}
    assert place.counts.read_text() == "a\n"


def test_stopped_before_the_run_begins(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = Workplace(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        process = place.start("ask", "What?", "--json")
        with silent.accept()[0]:  # it waits for an answer from here on
            returned, out, err = stop(process, signal.SIGINT)
    assert (returned, err) == (130, "Stopped before the run began.\n")
    assert (kinds(out)[-1], events(out)[-1]["id"]) == ("done", None)
    assert place.call("runs", "list") == ""


def test_stopped_during_a_tool_whose_neighbour_has_finished(tmp_path: Path):
    calls = command({"text": "slow"}, {"text": "quick"})
    with ScriptedServer(scripts(executor=[calls])) as server:
        place = patient_place(tmp_path, server)
        process = place.start("ask", "What?")
        assert process.stdout
        head = ""
        while "result 2" not in head:
            line = process.stdout.readline()
            assert line, process.communicate()
            head += line
        returned, _out, err = stop(process, signal.SIGINT)
        assert returned == 130, err
        run = re.search(r"agentflow runs resume (\S+)", err)
        assert run
        (tmp_path / "go").touch()
        again = [event for event in events(place.call("runs", "resume", run[1], "--json")) if "status" in event]
        assert [(event["index"], event["repeated"]) for event in again] == [(0, True)]
        assert [server.count(role) for role in ("analyzer", "planner", "executor", "verifier")] == [1, 1, 1, 1]
    assert sorted(place.counts.read_text().split()) == ["quick", "slow", "slow"]


def test_a_tool_that_never_gives_way_does_not_keep_ctrl_c_waiting(tmp_path: Path):
    (tmp_path / "stubborn.py").write_text(
        "import time\nfrom pathlib import Path\nfrom langchain_core.tools import StructuredTool\n\n"
        "async def wait(text: str) -> str:\n    Path('began').touch()\n    time.sleep(600)\n    return text\n\n"
        "count_calls = StructuredTool.from_function(coroutine=wait, name='count_calls', description='Waits.')\n"
    )
    with ScriptedServer(scripts()) as server:
        place = Workplace(tmp_path, server.url)
        process = place.start("ask", "What?", "--set", 'tools.custom=["stubborn:count_calls"]')
        wait_for((tmp_path / "began").exists, "the tool never began")
        returned, _out, err = stop(process, signal.SIGINT)
    assert returned == 130, err
    assert "agentflow runs resume" in err
    assert json.loads(place.call("runs", "list", "--json"))["status"] == "interrupted"


HANGING_TOOL = """
import asyncio, time
from pathlib import Path
from langchain_core.tools import StructuredTool
from graph.tools.card import ToolCard

def hang(text: str) -> str:
    Path("began").touch()
    time.sleep(3600)
    return text

async def hang_elsewhere(text: str) -> str:
    return await asyncio.to_thread(hang, text)

async def leave(text: str) -> str:
    raise SystemExit(3)

def make(**functions):
    card = ToolCard(limits="", best_practice="", timeout=1)
    return StructuredTool.from_function(name="count_calls", description="Hangs.", metadata={"card": card}, **functions)

sync, elsewhere, leaving = make(func=hang), make(coroutine=hang_elsewhere), make(coroutine=leave)
patient = make(func=hang)
patient.metadata = {"card": ToolCard(limits="", best_practice="", timeout=3600)}
"""
"""Sleeps for an hour in a thread."""


@pytest.mark.parametrize(("name", "status"), [("sync", "timeout"), ("elsewhere", "timeout"), ("leaving", "error")])
def test_a_tool_that_hangs_or_leaves_keeps_no_answer_back(tmp_path: Path, name: str, status: str):
    (tmp_path / "hanging.py").write_text(HANGING_TOOL)
    with ScriptedServer(scripts()) as server:
        place = Workplace(tmp_path, server.url)
        done = place.run("ask", "What?", "--json", "--set", f'tools.custom=["hanging:{name}"]')
    assert done.returncode == 0, done.stderr
    assert events(done.stdout)[-1]["answer"] == "42"
    assert [event["status"] for event in events(done.stdout) if event["event"] == "observation"] == [status]


def test_a_tool_that_hangs_in_a_thread_does_not_keep_ctrl_c_waiting(tmp_path: Path):
    (tmp_path / "hanging.py").write_text(HANGING_TOOL)
    with ScriptedServer(scripts()) as server:
        place = Workplace(tmp_path, server.url)
        process = place.start("ask", "What?", "--set", 'tools.custom=["hanging:patient"]')
        wait_for((tmp_path / "began").exists, "the tool never began")
        returned, _out, err = stop(process, signal.SIGINT)
    assert returned == 130, err
    assert "agentflow runs resume" in err


@pytest.mark.parametrize("where", ["model", "tool"])
def test_killed_and_resumed_without_repeating_what_was_committed(tmp_path: Path, where: str):
    changes: dict[str, Any] = {"planner": [SLOW, plan()]} if where == "model" else {}
    with ScriptedServer(scripts(executor=[command({"text": "slow"})], **changes)) as server:
        place = patient_place(tmp_path, server)
        process = place.start("ask", "What?")
        if where == "model":
            wait_for(lambda: server.count("planner") == 1, "the planner was never asked")
        else:
            wait_for(place.counts.exists, "the tool never began")
        row = json.loads(place.call("runs", "list", "--json"))
        assert row["status"] == "running"
        with pytest.raises(ConfigError, match="still goes on in another process"):
            place.call("runs", "resume", row["id"])
        process.kill()
        process.communicate()
        assert json.loads(place.call("runs", "list", "--json"))["status"] == "interrupted"
        assert f"interrupted\ngo on with: agentflow runs resume {row['id']}" in place.call("runs", "show", row["id"])
        (tmp_path / "go").touch()
        done = place.run("runs", "resume", row["id"], "--json")
        assert done.returncode == 0, done.stderr
        assert events(done.stdout)[-1]["answer"] == "42"
        repeated = [event["repeated"] for event in events(done.stdout) if event["event"] == "observation"]
        assert repeated == [where == "tool"]
        planned = 2 if where == "model" else 1
        assert [server.count(role) for role in ("analyzer", "planner", "executor")] == [1, planned, 1]
    assert place.counts.read_text() == "slow\n" * (1 if where == "model" else 2)
