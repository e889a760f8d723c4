"""`agentflow traces diff`, on runs of the real flow and on files."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graph.errors import ConfigError
from graph.records import Command, Fault, Observation, Plan, QueryAnalysis, StopReason, Turn, Verdict
from graph.trace import Trajectory
from tests.any_trajectory import realistic
from tests.command import Workplace
from tests.fakes import GO_ON, STOP, ScriptedServer, answer, command, plan
from tests.flows import scripts
from tests.trajectories import make_call

QUESTION = "What is 40 + 2?"
ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path, "http://127.0.0.1:9/v1")


def write(place: Workplace, *trajectories: Trajectory) -> None:
    lines = [trajectory.model_dump_json() for trajectory in trajectories]
    (place.directory / "t.jsonl").write_text("".join(f"{line}\n" for line in lines))


def diff(place: Workplace, *options: str, status: int = 1) -> str:
    return place.call("traces", "diff", *options, status=status)


def trajectory(name: str, *turns: Turn, **fields: Any) -> Trajectory:
    known = {"id": name, "question": "q", "turns": turns, "answer": "42", "stop": StopReason.VERIFIED}
    return Trajectory(**known | fields)


def turn(text: str = "1", **fields: Any) -> Turn:
    known = {
        "plan": Plan(sub_goal=f"g{text}", tool="python"),
        "command": Command(tool="python", calls=({"code": f"a = {text}\nprint(a)"},)),
        "observations": (Observation(tool="python", arguments={"code": text}, status="ok", content=f"out {text}"),),
        "verdict": Verdict(stop=False),
    }
    return Turn(**known | fields)


def ask(place: Workplace, *replies: dict[str, Any]) -> list[str]:
    """Ask a question once for each run's replies, always the same server; returns the ids."""
    runs = []
    with ScriptedServer({}, owned_by="vllm") as server:
        place.write_config(server.url)
        for changes in replies:
            server.scripts = {role: list(said) for role, said in scripts(**changes).items()}
            runs.append(str(json.loads(place.call("ask", QUESTION, "--json").splitlines()[-1])["id"]))
    return runs


def test_two_runs_whose_second_plan_was_sampled_differently(place: Workplace):
    calls = [command({"text": "a"}), command({"text": "b"})]
    two = {"executor": calls, "verifier": [GO_ON, STOP]}
    plans = [[plan(), plan(sub_goal=second)] for second in ("Look there", "Look here")]
    runs = ask(place, *({"planner": said, **two} for said in plans))
    shown = diff(place, *runs)
    assert "same      the question, the analysis, turn 1\ndiffers   the plan of turn 2\n" in shown
    assert "A         Look there → count_calls\nB         Look here → count_calls\n" in shown
    assert "its call of turn 2 is the first that differs" in shown
    assert "same prompt (the same token ids), different sample" in shown
    assert re.search(r"the samples differ from token \d+ on: A id \d+ \(log-probability -\d\.\d+\), B id \d+", shown)
    assert "turns\t2\t2\n" in shown
    assert "tools\tcount_calls ×2\tcount_calls ×2\n" in shown  # noqa: RUF001
    found = json.loads(diff(place, *runs, "--json"))
    assert (found["equal"], found["equal_turns"], found["first"]["kind"], found["first"]["turn"]) == (
        False,
        1,
        "plan",
        1,
    )
    assert (found["planner"]["same_prompt"], found["planner"]["prompt_by"]) == (True, "ids")
    ids = [
        json.loads(place.call("traces", "show", run, "--turn", "2", "--raw", "--json").splitlines()[0]) for run in runs
    ]
    position = found["planner"]["position"]
    assert found["planner"]["ids"] == [call["completion_ids"][position] for call in ids]
    assert ids[0]["completion_ids"][:position] == ids[1]["completion_ids"][:position]


def test_a_tool_that_found_something_else_changes_the_next_prompt(place: Workplace):
    results = [command({"text": text}) for text in ("a", "a")], [command({"text": text}) for text in ("z", "a")]
    two = {"planner": [plan(), plan()], "verifier": [GO_ON, STOP]}
    runs = ask(place, *({"executor": calls, **two} for calls in results))
    shown = diff(place, *runs)
    assert "the question, the analysis, the plan of turn 1\ndiffers   the call of turn 1" in shown
    assert "A         count_calls(text='a'" in shown
    assert "and then  turn 1: results of the calls" in shown
    assert re.search(r"turn 2 is the first that differs\n +the prompts differ already, from token \d+ on\n", shown)


def test_equal_ones(place: Workplace):
    runs = ask(place, {}, {})
    shown = diff(place, *runs, status=0)
    assert "equal     throughout: the question, the analysis, turn 1, the answer\n" in shown
    assert json.loads(diff(place, *runs, "--json", status=0))["equal"] is True


def test_a_fork_and_its_parent(place: Workplace):
    replies = scripts(planner=[plan(), plan()], executor=[command({"text": "a"})] * 2, verifier=[GO_ON, STOP])
    with ScriptedServer(replies, owned_by="vllm") as server:
        place.write_config(server.url)
        run = str(json.loads(place.call("ask", QUESTION, "--json").splitlines()[-1])["id"])
        server.scripts = {"executor": [command({"text": "x"})], "verifier": [STOP], "generator": [answer("43")]}
        lines = place.call("runs", "fork", run, "--turn", "2", "--sub-goal", "Elsewhere", "--json").splitlines()
    fork = str(json.loads(lines[-1])["id"])
    shown = diff(place, run, fork)
    assert (
        "the analysis, turn 1\ndiffers   the plan of turn 2\nA         Do it → count_calls\nB         Elsewhere"
        in shown
    )
    assert "the first that differs" not in shown, "the fork's planner was asked nothing that differs"
    assert "answer\t42\t43\n" in shown


def test_a_file_comes_before_the_database(place: Workplace):
    (run,) = ask(place, {})
    place.call("traces", "export", "t.jsonl")
    other = json.loads((place.directory / "t.jsonl").read_text()) | {"id": "other", "answer": "43"}
    (place.directory / "t.jsonl").write_text(json.dumps(other) + "\n")
    shown = diff(place, "oth", run[:20], "--file", "t.jsonl")
    assert f"A         other  (t.jsonl)\nB         {run}\n" in shown
    assert "differs   the answer\nA         43\nB         42\n" in shown
    with pytest.raises(ConfigError, match="There is no run 'zz'"):
        diff(place, "oth", "zz", "--file", "t.jsonl")


def test_standard_input_is_read_once(place: Workplace):
    lines = [trajectory(name, turn()).model_dump_json() for name in ("a", "b")]
    done = place.run("traces", "diff", "a", "b", "-f", "-", stdin="\n".join(lines).encode())
    assert (done.returncode, done.stderr) == (0, "")


def test_names_that_name_none_or_several_and_other_questions(place: Workplace):
    write(place, trajectory("a1"), trajectory("a2", question="Other?"))
    with pytest.raises(ConfigError, match="Several trajectories begin with 'a'"):
        diff(place, "a", "a1", "-f", "t.jsonl")
    with pytest.raises(ConfigError, match=r"There is no trajectory 'b' in t.jsonl"):
        diff(place, "a1", "b", "-f", "t.jsonl")
    done: subprocess.CompletedProcess[str] = place.run("traces", "diff", "a1", "a2", "-f", "t.jsonl")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "a1 and a2 answer different questions: compare two trajectories of one question.\n"


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"analysis": QueryAnalysis(summary="s")}, "differs   the analysis\nA         (nothing)\nB         summary: s"),
        (
            {"turns": (turn(), turn("3"))},
            "differs   the plan of turn 2\nA         g2 → python\nB         g3 → python\n",
        ),
        (
            {"turns": (turn(), turn("2", command=None, faults=(Fault(module="executor", message="Bad.\x1b[2J"),)))},
            "the plan of turn 2\ndiffers   the call of turn 2\nA         python\n          a = 2\n          print(a)\n"
            "B         the output could not be used: Bad.\n",
        ),
        (
            {"turns": (turn(), turn("2", observations=()))},
            "the plan and the call of turn 2\ndiffers   the results of the calls of turn 2\nA         result: out 2\n"
            "B         (nothing)\n",
        ),
        (
            {"turns": (turn(), turn("2", verdict=Verdict(stop=True)))},
            "differs   the verdict of turn 2\nA         go on\nB         enough to answer\n",
        ),
        (
            {"turns": (turn(),)},
            "turn 1\ndiffers   the plan of turn 2\nA         g2 → python\nB         (nothing)\nand then  turn 2: call",
        ),
        ({"answer": "43"}, "turns 1 to 2\ndiffers   the answer\nA         42\nB         43\n"),
        (
            {"stop": StopReason.MAX_TURNS},
            "turns 1 to 2, the answer\ndiffers   the ending\nA         VERIFIED\nB         MAX_TURNS\n",
        ),
        (
            {"turns": (turn(plan=Plan(sub_goal="g1", tool="python", context="c")), turn("2"))},
            "turns 1 to 2, the answer; only words differ\nworded    differently: the plan of turn 1\n",
        ),
        (
            {"calls": (make_call("planner", 0, text="b"),)},
            "only the planner's tokens differ\nplanner   its call of turn 1 is the first that differs\n"
            "          same prompt (the same hash), different sample\n"
            "          the texts differ from character 0 on; token ids were not recorded in both\n",
        ),
    ],
)
def test_what_is_told_of_each_difference(place: Workplace, other: dict[str, Any], told: str):
    one = trajectory("a", turn(), turn("2"), calls=(make_call("planner", 0, text="a"),))
    write(place, one, one.model_copy(update={"id": "b", "calls": one.calls} | other))
    shown = diff(place, "a", "b", "-f", "t.jsonl")
    assert told in shown
    assert "\x1b" not in shown


def test_long_results_are_shown_from_where_they_differ(place: Workplace):
    text = "x" * 5_000
    one, other = (
        trajectory(
            name, turn(observations=(Observation(tool="python", arguments={}, status="ok", content=text + end),))
        )
        for name, end in (("a", "one"), ("b", "two"))
    )
    write(place, one, other)
    shown = diff(place, "a", "b", "-f", "t.jsonl")
    assert re.search(r"^A +… x{100}one$", shown, re.M)
    assert text + "one" in diff(place, "a", "b", "-f", "t.jsonl", "--verbose")


def test_settings_that_differ_are_listed(place: Workplace):
    one = realistic(1)
    write(place, one, one.model_copy(update={"id": "b", "versions": {"agentflow": "9"}, "tools": ("search",)}))
    shown = diff(place, one.id, "b", "-f", "t.jsonl", status=0)
    assert (
        'settings\tA\tB\ntools\t["search", "python", "generate"]\t["search"]\nversions.agentflow\t0.1.0\t9\n' in shown
    )


def test_side_by_side_on_a_wide_terminal_and_one_under_the_other_on_a_narrow_one(place: Workplace):
    write(place, trajectory("a", turn("1")), trajectory("b", turn("2")))
    arguments = ("traces", "diff", "a", "b", "-f", "t.jsonl")
    rows = {}
    for columns in (80, 160):
        code = f"import os; os.environ['COLUMNS'] = '{columns}'; from agentflow.main import run; run()"
        place.command = lambda *given, code=code: [sys.executable, "-c", code, *given]  # type: ignore[method-assign]
        status, screen = place.run_on_terminal(*arguments)
        assert status == 1
        rows[columns] = [row.rstrip() for row in ANSI.sub("", screen).replace("\r", "").splitlines()]
        assert max(map(len, rows[columns])) <= columns
    assert "A         g1 → python" in rows[80]
    assert "B         g2 → python" in rows[80]
    assert any(re.fullmatch(r"g1 → python +g2 → python", row) for row in rows[160])
