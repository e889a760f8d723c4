import json
import sqlite3
import subprocess
from contextlib import closing

import pytest

from agentflow.console.terminal import complain
from graph.engine.machine import birth_mark
from graph.errors import ConfigError
from graph.storage.owner import this_process
from tests.command import Workplace, events
from tests.fakes import ScriptedServer
from tests.flows import scripts
from tests.unit.agentflow.conftest import Call

QUESTION = "What is [bold]6[/bold] times 7?"


@pytest.fixture
def asked(call: Call, place: Workplace, server: ScriptedServer) -> str:
    """What asking printed."""
    place.write_config(server.url)
    return call("ask", QUESTION)


def test_looking_at_runs_creates_nothing(call: Call, place: Workplace):
    assert call("runs", "list") == ""
    with pytest.raises(ConfigError, match="There are no runs yet"):
        call("runs", "show", "0")
    assert not (place.directory / ".agentflow").exists()


def test_list(call: Call, asked: str):
    run, _when, *rest = call("runs", "list").rstrip("\n").split("\t")
    assert rest == ["finished", "VERIFIED", "1", QUESTION, "42"]
    row = json.loads(call("runs", "list", "--json", "--text", "TIMES"))
    assert (row["status"], row["id"][:13]) == ("finished", run)
    assert call("runs", "list", "--text", "seven") == ""
    assert call("runs", "list", "--status", "interrupted") == ""


def test_show_prints_a_stored_run_as_it_was_printed_live(call: Call, asked: str):
    run = json.loads(call("runs", "list", "--json"))["id"]
    assert call("runs", "show", run[:20]) == asked
    trajectory = json.loads(call("runs", "show", run, "--json"))
    assert (trajectory["answer"], len(trajectory["calls"])) == ("42", 5)


def test_a_servers_error_cannot_act_on_the_terminal(call: Call, place: Workplace, capsys: pytest.CaptureFixture[str]):
    with ScriptedServer(
        scripts(analyzer=[{"status": 400, "message": "\x1b]0;evil\x07\x1b[2J\x1b[31m[bold]no"}])
    ) as server:
        place.write_config(server.url)
        told = call("ask", QUESTION, "--json", status=2)
    run = events(told)[-1]["id"]
    shown = call("runs", "show", run)
    assert "answered 400: [bold]no" in shown
    assert "\x1b" not in shown
    complain(json.loads(call("runs", "show", run, "--json"))["error"])
    complained = capsys.readouterr().err
    assert "answered 400: [bold]no" in complained
    assert "\x1b" not in complained


def test_fork_takes_another_way_from_a_turn(call: Call, asked: str, server: ScriptedServer):
    run = json.loads(call("runs", "list", "--json"))["id"]
    output = call("runs", "fork", run[:20], "--turn", "1", "--sub-goal", "Do something else", "--json")
    assert server.count("planner") == 1
    shown = json.loads(call("runs", "show", events(output)[-1]["id"], "--json"))
    assert (shown["parent"], shown["turns"][0]["plan"]["sub_goal"]) == (run, "Do something else")
    with pytest.raises(ConfigError, match="has turns 1 to 1, not 2"):
        call("runs", "fork", run, "--turn", "2")


def test_delete_wants_a_yes(call: Call, asked: str):
    run = json.loads(call("runs", "list", "--json"))["id"]
    with pytest.raises(ConfigError, match="add --yes"):
        call("runs", "delete", run)
    call("runs", "delete", run, "--yes")
    assert call("runs", "list") == ""


def test_a_finished_run_is_not_resumed(call: Call, asked: str, server: ScriptedServer):
    run = json.loads(call("runs", "list", "--json"))["id"]
    with pytest.raises(ConfigError, match=r"has ended \(VERIFIED\)"):
        call("runs", "resume", run)
    assert server.count("generator") == 1


@pytest.mark.parametrize("place_of_owner", ["recreated/4026531836", "same"])
def test_a_run_of_a_container_that_is_gone_is_taken_by_force(
    call: Call, place: Workplace, asked: str, place_of_owner: str
):
    """A process of another machine may go on unseen: the user's word decides. One of this machine is seen."""
    other = subprocess.Popen(["sleep", "600"])
    try:
        where = this_process().split(" ")[0] if place_of_owner == "same" else place_of_owner
        owner = f"{where} {other.pid} {birth_mark(other.pid)}"
        with closing(sqlite3.connect(place.directory / ".agentflow" / "runs.db")) as connection, connection:
            connection.execute("UPDATE runs SET status = 'running', owner = ?", (owner,))
        run = json.loads(call("runs", "list", "--json"))["id"]
        if place_of_owner == "same":
            for command in (("resume",), ("resume", "--force"), ("delete", "--yes", "--force")):
                with pytest.raises(ConfigError, match=rf"still goes on in another process \({other.pid}\)"):
                    call("runs", command[0], run, *command[1:])
            return
        for command in (("resume",), ("delete", "--yes")):
            with pytest.raises(ConfigError, match=r"another machine or container \(recreated\).* add --force"):
                call("runs", command[0], run, *command[1:])
        assert events(call("runs", "resume", run, "--force", "--json"))[-1]["answer"] == "42"
        with closing(sqlite3.connect(place.directory / ".agentflow" / "runs.db")) as connection, connection:
            connection.execute("UPDATE runs SET status = 'running', owner = ?", (owner,))
        call("runs", "delete", run, "--yes", "--force")
        assert call("runs", "list") == ""
    finally:
        other.kill()
        other.wait()
