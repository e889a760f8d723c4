"""The `agentflow` program as a user runs it: asking, and what can be done with runs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import Workplace, events, kinds
from tests.fakes import STOP, ScriptedServer, answer, command, plan
from tests.flows import scripts

NASTY = "\x1b]0;title\x07\x1b[31mred\x1b[0m \u202eevil [bold]kept[/bold] \x9b2J"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(scripts(), repeat=True) as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: ScriptedServer) -> Workplace:
    return Workplace(tmp_path, server.url)


def test_ask_prints_turns_and_answer_as_plain_lines_in_a_pipe(place: Workplace):
    done = place.run("ask", "What is 6 times 7?")
    assert done.returncode == 0, done.stderr
    labels = [line.split()[0] for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert labels == ["question", "analysis", "Turn", "plan", "call", "result", "verdict", "solution", "answer"]
    assert re.search(r"^plan +Do it → count_calls", done.stdout, re.MULTILINE)
    assert re.search(r"^call +count_calls\(text='a'\)", done.stdout, re.MULTILINE)
    assert re.search(r"^answer +42$", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout
    assert "agentflow ask --conversation" in done.stderr


def test_json_prints_one_event_a_line_from_the_first_to_done(place: Workplace):
    done = place.run("ask", "What?", "--json")
    assert done.returncode == 0, done.stderr
    found = kinds(done.stdout)
    assert found[:3] == ["notice", "run", "module"]
    assert found[-1] == "done"
    assert "token" in found
    last = events(done.stdout)[-1]
    assert (last["stop"], last["answer"]) == ("VERIFIED", "42")


def test_question_from_standard_input(place: Workplace, server: ScriptedServer):
    done = place.run("ask", "-", "--json", stdin="Wie groß ist π?\n".encode())
    assert done.returncode == 0, done.stderr
    assert events(done.stdout)[1]["question"] == "Wie groß ist π?"
    assert "Wie groß ist π?" in server.of("analyzer")[0]["messages"][-1]["content"]


@pytest.mark.parametrize("terminal", [False, True])
def test_text_of_models_and_tools_cannot_act_on_the_terminal(tmp_path: Path, terminal: bool):
    replies = scripts(executor=[command({"text": NASTY})], generator=[answer(NASTY)], planner=[plan(sub_goal=NASTY)])
    with ScriptedServer(replies) as server:
        place = Workplace(tmp_path, server.url)
        output = place.run_on_terminal("ask", "q", TERM="xterm")[1] if terminal else place.run("ask", "q").stdout
    if terminal:
        assert "opening models and tools" in output
        assert output.count("\x1b[?25l") == output.count("\x1b[?25h") == 1
    assert "red evil [bold]kept[/bold]" in output
    assert not re.search("\x1b\\]0|\x1b\\[31m|\x1b\\[2J|[\u202e\x9b]", output)


def test_a_dumb_terminal_gets_plain_lines(place: Workplace):
    status, output = place.run_on_terminal("ask", "What?", TERM="dumb")
    assert status == 0, output
    assert "\x1b" not in output
    assert "answer    42" in output


def test_no_color_is_respected(place: Workplace):
    status, output = place.run_on_terminal("ask", "What?", TERM="xterm-256color", NO_COLOR="1")
    assert status == 0, output
    assert not re.search(r"\x1b\[[\d;]*3\d[;m]", output)


def test_a_failed_run_says_how_to_go_on_and_does(tmp_path: Path):
    replies = scripts(verifier=[{"status": 500, "message": "out of order"}, STOP])
    with ScriptedServer(replies) as server:
        place = Workplace(tmp_path, server.url)
        failed = place.run("ask", "What?")
        assert failed.returncode == 2
        assert "out of order" in failed.stderr
        assert "Traceback" not in failed.stderr
        run = re.search(r"agentflow runs resume (\S+)", failed.stderr)
        assert run
        assert "out of order" in place.call("runs", "show", run[1])
        assert events(place.call("runs", "resume", run[1][:13], "--json"))[-1]["answer"] == "42"
    assert place.counts.read_text() == "a\n"
    assert [server.count(role) for role in ("analyzer", "planner", "executor", "verifier")] == [1, 1, 1, 2]


def test_a_pipe_that_nobody_reads_any_more_stops_the_run_quietly(tmp_path: Path):
    with ScriptedServer(scripts(planner=[{"text": plan(), "pause": 0.3}])) as server:
        place = Workplace(tmp_path, server.url)
        process = place.start("ask", "What?", "--json")
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == ""
        process.stderr.close()
        assert json.loads(place.call("runs", "list", "--json"))["status"] == "cancelled"


def test_what_a_users_tool_prints_stays_out_of_the_events(place: Workplace):
    (place.directory / "loud.py").write_text(
        "from langchain_core.tools import tool\n\n"
        "@tool\ndef count_calls(text: str) -> str:\n    'Notes a text.'\n    print('LOUD')\n    return text\n"
    )
    done = place.run("ask", "What?", "--json", "--set", 'tools.custom=["loud:count_calls"]')
    assert done.returncode == 0, done.stderr
    assert kinds(done.stdout)[-1] == "done"
    assert "LOUD" in done.stderr
