"""`agentflow traces show`, on runs of the real flow and on files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentflow.console.calls_table import UNKNOWN
from graph.errors import ConfigError
from graph.feedback import Feedback
from graph.records import Answer, Exchange, Fault, Turn, Usage
from graph.trace import Trajectory
from tests.any_trajectory import realistic
from tests.command import Workplace, wait_for
from tests.fakes import GO_ON, STOP, ScriptedServer, command, plan
from tests.flows import scripts
from tests.trajectories import make_call

QUESTION = "What is [bold]40 + 2[/bold]?"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Answers one question, in two turns."""
    calls = [command({"text": "a"}), command({"text": "b"})]
    replies = scripts(planner=[plan(), plan(sub_goal="Again")], executor=calls, verifier=[GO_ON, STOP])
    with ScriptedServer(replies, owned_by="vllm") as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: ScriptedServer) -> Workplace:
    return Workplace(tmp_path, server.url)


def ask(place: Workplace, *options: str) -> str:
    return str(json.loads(place.call("ask", QUESTION, "--json", *options).splitlines()[-1])["id"])


def write(place: Workplace, *trajectories: Trajectory) -> None:
    lines = [trajectory.model_dump_json() for trajectory in trajectories]
    (place.directory / "t.jsonl").write_text("".join(f"{line}\n" for line in lines))


def raw(place: Workplace, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.call("traces", "show", *options, "--raw", "--json").splitlines()]


def test_a_run_as_people_read_it(place: Workplace):
    run = ask(place, "--tag", "good one")
    place.call("feedback", run, "--bad", "--answer", "43", "--note", "off by one")
    shown = place.call("traces", "show", run[:20])
    assert f"trajectory   {run}" in shown
    assert "source       ask" in shown
    assert "reward       0 (human)" in shown
    assert "bad · right answer: 43 · off by one" in shown
    assert "tags         good one" in shown
    assert shown.index("Turn 1") < shown.index("Turn 2") < shown.index("answer    42")
    told = rf"^planner   2 calls, [\d,]+ prompt tokens, {UNKNOWN} of them cached, [\d,]+ written, [\d.]+ s, cost"
    assert re.search(told, shown, re.M)
    assert "settings" not in shown
    assert "settings" in place.call("traces", "show", run, "--verbose")


def test_a_file_shows_what_the_database_shows(place: Workplace):
    run = ask(place)
    place.call("traces", "export", "t.jsonl")
    assert place.call("traces", "show", run[:20], "--file", "t.jsonl") == place.call("traces", "show", run)
    assert raw(place, run, "-f", "t.jsonl") == raw(place, run)


def test_one_turn(place: Workplace):
    run = ask(place)
    second = place.call("traces", "show", run, "--turn", "2")
    assert "Again → count_calls" in second
    assert "Do it" not in second
    assert "trajectory" not in second
    before = place.call("traces", "show", run, "--turn", "0")
    assert re.fullmatch(rf"question  {re.escape(QUESTION)}\nanalysis  A sum  \([\d.]+ s\)\n", before)
    assert "answer    42" in place.call("traces", "show", run, "--turn", "answer")
    turn = json.loads(place.call("traces", "show", run, "--turn", "1", "--json"))
    assert (turn["turn"], turn["plan"]["sub_goal"]) == (1, "Do it")
    assert [call["role"] for call in turn["calls"]] == ["planner", "executor", "verifier"]
    first = json.loads(place.call("traces", "show", run, "--turn", "0", "--json"))
    assert (first["analysis"]["summary"], [call["role"] for call in first["calls"]]) == ("A sum", ["analyzer"])
    after = json.loads(place.call("traces", "show", run, "--turn", "answer", "--json"))
    assert (after["answer"], [call["role"] for call in after["calls"]]) == ("42", ["generator"])


@pytest.mark.parametrize("turn", ["3", "-1", "x", "", "1.0", "²"])
def test_a_turn_that_is_not_there(place: Workplace, turn: str):
    write(place, realistic(1, turns=2))
    with pytest.raises(ConfigError, match=r"has turns 1 to 2, not .*: give one of them, 0 for what"):
        place.call("traces", "show", "0", "-f", "t.jsonl", "--turn", turn)


def test_raw_calls_are_what_the_server_got_and_said(place: Workplace, server: ScriptedServer):
    run = ask(place)
    calls = raw(place, run)
    assert [call["messages"] for call in calls] == [body["messages"] for body in server.requests]
    assert {call["messages_match"] for call in calls} == {True}
    planner = raw(place, run, "--turn", "2")[0]
    body = server.of("planner")[1]
    assert planner["prompt_ids"] == server.prompt_ids(body)
    shown = place.call("traces", "show", run, "--turn", "2", "--raw")
    assert f"── user\n{body['messages'][-1]['content']}\n── text\n{plan(sub_goal='Again')}\n" in shown
    assert " ".join(map(str, planner["prompt_ids"])) in shown
    listed = re.search(r"completion ids and log-probabilities \(\d+\)\n((?: *\d+ +-?\d+ +-?[\d.]+\n)+)", shown)
    assert listed
    rows = [line.split() for line in listed[1].splitlines()]
    assert [(int(place), int(token), float(logprob)) for place, token, logprob in rows] == list(
        zip(range(len(rows)), planner["completion_ids"], planner["logprobs"], strict=True)
    )
    assert "── sampling: temperature 0.7, top_p 1.0" in shown
    assert f"── prompt hash: {planner['prompt_hash']}: the messages match it" in shown
    assert "── finish reason: stop" in shown


def test_what_is_missing_is_said(place: Workplace):
    bare = make_call(
        "planner", 0, model=None, sampling=None, finish_reason=None, prompt_hash=None, seconds=None, at=None
    )
    changed = make_call("executor", 0, messages=({"role": "user", "content": "x"},), completion_ids=(5,))
    write(place, Trajectory(id="imported", question="q", turns=(Turn(),), calls=(bare, changed)))
    shown = place.call("traces", "show", "imp", "-f", "t.jsonl", "--raw")
    first, second = shown.split("\n\n")
    assert first.startswith("planner · turn 1\n── messages\nnot recorded\n── text\nempty\n")
    assert first.count("the server returned no token ids") == 2
    for line in (
        "sampling: not recorded",
        "usage: the server did not say",
        "finish reason: not recorded",
        "time: not recorded",
        "prompt hash: not recorded",
    ):
        assert f"── {line}" in first
    assert "── completion ids, without log-probabilities (1)\n     0        5\n" in second
    assert "the messages do NOT match it" in second
    assert "the server said nothing" not in place.call("traces", "show", "imp", "-f", "t.jsonl")


def test_a_trajectory_of_which_little_is_known(place: Workplace):
    write(place, Trajectory(id="a", question="q", turns=(Turn(),), calls=(make_call("planner", 0, seconds=None),)))
    shown = place.call("traces", "show", "a", "-f", "t.jsonl", "--verbose")
    assert "ending unknown" in shown
    assert "when" not in shown
    assert f"1 call, {UNKNOWN} prompt tokens, {UNKNOWN} of them cached, {UNKNOWN} written, {UNKNOWN} s" in shown


def test_a_fork_names_its_parent_and_the_turn(place: Workplace):
    write(place, realistic(1).model_copy(update={"id": "f", "parent": "p", "parent_turns": 2}))
    assert "fork of      p, from turn 3\n" in place.call("traces", "show", "f", "-f", "t.jsonl")


def test_text_of_models_cannot_act_on_the_terminal(place: Workplace):
    evil = "\x1b]0;evil\x07\x1b[2Jtext[bold]"
    call = make_call(
        "planner", 0, text=evil, policy=evil, finish_reason=evil, messages=({"role": "user", "content": evil},)
    )
    fault = Fault(module="planner", message=evil)
    write(
        place,
        Trajectory(
            id="e",
            question=evil,
            dataset=evil,
            tags=(evil,),
            turns=(Turn(faults=(fault,)),),
            calls=(call,),
            feedback=(Feedback(at=1e300, note=evil, author=evil),),
            created=-1e300,
            error=evil,
        ),
    )
    for options in ([], ["--raw"], ["--verbose"]):
        shown = place.call("traces", "show", "e", "-f", "t.jsonl", *options)
        assert "text[bold]" in shown
        assert not set(shown) & {"\x1b", "\x07"}


def test_names_that_name_none_or_several(place: Workplace):
    write(place, *(realistic(1).model_copy(update={"id": name}) for name in ("ab1", "ab2", "ab")))
    assert json.loads(place.call("traces", "show", "ab", "-f", "t.jsonl", "--json"))["id"] == "ab"
    with pytest.raises(ConfigError, match="Several trajectories begin with 'a': give more of the id"):
        place.call("traces", "show", "a", "-f", "t.jsonl")
    with pytest.raises(ConfigError, match=r"There is no trajectory 'c' in t.jsonl"):
        place.call("traces", "show", "c", "-f", "t.jsonl")
    with pytest.raises(ConfigError, match="There are no runs yet"):
        place.call("traces", "show", "ab")


def test_a_run_that_is_going_on_and_one_that_was_interrupted(place: Workplace):
    with ScriptedServer(scripts(verifier=[{"text": STOP, "delay": 60}])) as server:
        place.write_config(server.url)
        process = place.start("ask", QUESTION)
        try:
            wait_for(lambda: server.count("verifier") == 1, "the verifier is asked")
            wait_for(lambda: "noted" in place.call("traces", "show", run_of(place)), "the result is stored")
            run = run_of(place)
            going = place.call("traces", "show", run)
            assert f"still running (process {process.pid})" in going
            assert "stopped" not in going
            assert [call["role"] for call in raw(place, run, "--turn", "1")] == ["planner", "executor"]
        finally:
            process.kill()
            process.communicate()
    stopped = place.call("traces", "show", run)
    assert f"interrupted\ngo on with: agentflow runs resume {run}" in stopped


def run_of(place: Workplace) -> str:
    return str(json.loads(place.call("runs", "list", "--json"))["id"])


def test_on_a_terminal(place: Workplace):
    run = ask(place)
    status, screen = place.run_on_terminal("traces", "show", run)
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen).replace("\r", "").splitlines()
    assert status == 0
    assert max(map(len, lines)) <= 80
    assert any(line.split()[:2] == ["trajectory", run] for line in lines)
    assert any(line.split()[:2] == ["planner", "2"] for line in lines)


def test_an_answer_and_a_history_are_shown(place: Workplace):
    found = realistic(2).model_copy(update={"id": "h", "history": (Exchange(question="x", answer="y"),)})
    write(place, found)
    before = json.loads(place.call("traces", "show", "h", "-f", "t.jsonl", "--turn", "0", "--json"))
    assert before["history"] == [{"question": "x", "answer": "y"}]
    assert found.answer
    assert Answer(answer=found.answer).answer in place.call("traces", "show", "h", "-f", "t.jsonl", "--turn", "answer")
    assert Usage(**before["calls"][0]["usage"]) == found.calls[0].usage
