"""`agentflow traces stats`, on runs of the real flow and on files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from graph.records import Observation, StopReason, Turn, Usage
from graph.trace import Trajectory
from tests.command import Workplace
from tests.fakes import ScriptedServer
from tests.flows import scripts
from tests.trajectories import make_call

PRICED = '[prices."test-model"]\nprompt = 1\ncompletion = 1_000_000\n'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with ScriptedServer(scripts(), owned_by="vllm", repeat=True) as server:
        yield Workplace(tmp_path, server.url)


def write(place: Workplace, *trajectories: Trajectory) -> None:
    lines = [trajectory.model_dump_json() for trajectory in trajectories]
    (place.directory / "t.jsonl").write_text("".join(f"{line}\n" for line in lines))


def planned(name: str, policy: str | None, *, reward: float, usage: Usage = Usage()) -> Trajectory:  # noqa: B008
    result = Observation(tool="python\x1b[31m", arguments={}, status="error", content="")
    return Trajectory(
        id=name,
        question="q",
        dataset="gaia",
        stop=StopReason.VERIFIED,
        reward=reward,
        reward_source="exact",
        turns=(Turn(observations=(result,)),),
        calls=(make_call("planner", 0, policy=policy, usage=usage, model="m", seconds=None),),
    )


def lines(output: str) -> dict[tuple[str, str], str]:
    rows = [line.split("\t") for line in output.splitlines()]
    return {(group, name): value for group, name, value in rows}


def test_runs_of_the_database(place: Workplace):
    run = json.loads(place.call("ask", "What is 40 + 2?", "--json").splitlines()[-1])["id"]
    place.call("feedback", run, "--good")
    found = json.loads(place.call("traces", "stats", "--json"))
    (group,) = found["groups"]
    assert (found["by"], group["group"], group["trajectories"]) == ("policy", "test-model", 1)
    assert (group["reward"]["mean"], group["reward"]["sources"]) == (1.0, {"human": 1})
    assert group["tools"]["count_calls"]["calls"] == 1
    assert set(group["roles"]) == {"analyzer", "planner", "executor", "verifier", "generator"}
    tokens = group["roles"]["planner"]
    assert (tokens["prompt_tokens"]["of"], tokens["dollars"]) == (1, {"sum": None, "of": 0})


def test_configured_prices_are_used(place: Workplace):
    place.call("ask", "What is 40 + 2?")
    with (place.directory / "agentflow.toml").open("a") as file:
        file.write(PRICED)
    (group,) = json.loads(place.call("traces", "stats", "--json"))["groups"]
    calls = group["calls"]
    expected = calls["prompt_tokens"]["sum"] / 1e6 + calls["completion_tokens"]["sum"]
    assert calls["dollars"] == {"sum": pytest.approx(expected), "of": 5}


def test_lines_for_programs(place: Workplace):
    write(
        place,
        planned("a", "planner@v2", reward=1.0),
        planned("b", "planner@v10", reward=0.0, usage=Usage(prompt=10, cached=1, completion=2)),
        planned("c", None, reward=0.5),
    )
    output = place.call("traces", "stats", "--file", "t.jsonl")
    assert "\x1b" not in output
    found = lines(output)
    assert list(dict.fromkeys(group for group, _ in found)) == ["planner@v2", "planner@v10", "unknown"]
    assert found["planner@v2", "reward.mean"] == "1.0"
    assert found["unknown", "reward.low"] == "–"  # noqa: RUF001
    assert found["planner@v10", "roles.planner.prompt_tokens.sum"] == "10"
    assert found["planner@v2", "roles.planner.prompt_tokens.sum"] == "–"  # noqa: RUF001
    assert found["planner@v2", "tools.python.error_rate"] == "1.0"


def test_groups_and_filters(place: Workplace):
    write(place, planned("a", "planner@v1", reward=1.0), planned("b", "planner@v1", reward=0.0))
    found = lines(place.call("traces", "stats", "-f", "t.jsonl", "--by", "dataset", "--min-reward", "1"))
    assert found["gaia", "trajectories"] == "1"
    assert lines(place.call("traces", "stats", "-f", "t.jsonl", "--by", "none"))["all", "trajectories"] == "2"


def test_nothing_to_count(place: Workplace, capsys: pytest.CaptureFixture[str]):
    write(place, planned("a", None, reward=1.0))
    assert place.call("traces", "stats", "-f", "t.jsonl", "--tool", "none") == ""
    assert json.loads(place.call("traces", "stats", "-f", "t.jsonl", "--tool", "none", "--json"))["groups"] == []


def test_on_a_terminal_columns_that_do_not_fit_come_below(place: Workplace):
    usage = Usage(prompt=1_000, cached=500, completion=20)
    write(place, *(planned(str(number), f"planner@v{number}", reward=1.0, usage=usage) for number in range(8)))
    place.write_config("http://127.0.0.1:9/v1", "[prices.m]\nprompt = 1\ncompletion = 1\n")
    status, screen = place.run_on_terminal("traces", "stats", "-f", "t.jsonl")
    rows = re.sub(r"\x1b\[[0-9;]*m", "", screen).replace("\r", "").splitlines()
    assert status == 0
    assert max(map(len, rows)) <= 80
    heads = [row.split() for row in rows if row.split()[:1] in (["planner@v0"], ["planner@v3"], ["planner@v6"])]
    assert [head for head in heads if len(head) > 1] == [
        ["planner@v0", "planner@v1", "planner@v2"],
        ["planner@v3", "planner@v4", "planner@v5"],
        ["planner@v6", "planner@v7"],
    ]
    assert sum(row.startswith("call errors") for row in rows) == 3
    assert rows[-1].split() == ["planner", "1", "1,000", "500", "20", "–", "–", "–", "–", "–", "$0.0010"]  # noqa: RUF001
    assert "…" not in screen
