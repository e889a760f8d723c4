"""`agentflow traces validate`, on runs of the real flow and on files."""

import json
from pathlib import Path
from typing import Any

import pytest

from graph.errors import TraceError
from graph.trace import Trajectory
from tests.command import Workplace
from tests.fakes import ScriptedServer
from tests.flows import scripts
from tests.gate_traces import BENCHMARK, sampled, sort, sound, sound_group, with_calls
from training.gate.judging import Use
from training.gate.sorting import SortedFiles
from training.replay import TraceReplay


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path, "http://127.0.0.1:9/v1")


def write(place: Workplace, *traces: Trajectory, name: str = "t.jsonl", more: str = "") -> None:
    lines = "".join(trajectory.model_dump_json() + "\n" for trajectory in traces)
    (place.directory / name).write_text(lines + more, "utf-8")


def report(place: Workplace, *options: str, status: int = 0) -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(place.call("traces", "validate", "--json", *options, status=status))
    return printed


def found(printed: dict[str, Any]) -> dict[str, int]:
    return {problem["kind"]: problem["count"] for problem in printed["problems"]}


def read(path: Path) -> list[Trajectory]:
    return [Trajectory.model_validate_json(line) for line in path.read_text("utf-8").splitlines()]


def test_runs_of_the_real_flow_are_told_what_they_lack_and_what_mends_it(tmp_path: Path) -> None:
    with ScriptedServer(scripts(), owned_by="vllm", repeat=True) as server:
        place = Workplace(tmp_path, server.url)
        warm = ("--set", "models.planner.temperature=0.7")
        ids = [place.call("ask", "Is it far?", "--json", *warm).splitlines()[-1] for _ in range(3)]
        printed = report(place, status=1)
        assert found(printed) == {"unscored": 3, "no_group": 3}, "calls, prompts and sampling of the flow are in order"
        assert printed["unusable"] == 3
        good, bad, _ = (json.loads(line)["id"] for line in ids)
        place.call("feedback", good, "--good")
        place.call("feedback", bad, "--bad")
        printed = report(place)
        assert (printed["demonstrations"], printed["unusable"]) == (1, 2)
        place.call("feedback", bad, "--answer", "Yes")
        assert report(place)["questions_only"] == 1
        place.call("traces", "export", "all.jsonl")
    grouped = [trace.model_copy(update={"group": "g"}) for trace in read(tmp_path / "all.jsonl")]
    write(place, *grouped)
    printed = report(place, "-f", "t.jsonl", "--out", "sorted")
    assert (printed["exact"], found(printed)) == (2, {"unscored": 1, "lost_members": 1, "same_plans": 2})
    assert TraceReplay(read(tmp_path / "sorted" / "exact.jsonl")).group_size == 2


def test_a_planner_at_temperature_0_is_named(tmp_path: Path) -> None:
    with ScriptedServer(scripts(), owned_by="vllm", repeat=True) as server:
        place = Workplace(tmp_path, server.url)
        place.call("ask", "Is it far?", "--set", "models.planner.temperature=0")
        assert found(report(place, status=1))["greedy"] == 1


def test_files_for_each_use_hold_what_was_counted_and_training_takes_them(place: Workplace) -> None:
    exact = sound_group("a")
    mixed = sound_group("b")
    mixed[1] = sampled(mixed[1], constrained=True)
    again = exact[0].model_copy(update={"question": "changed"})
    success = sound("s", group=None, reference=None)
    write(place, *mixed, *exact, again, success, sound("u", group=None, reward=None, reference=None))
    printed = report(place, "-f", "t.jsonl", "--out", "out/sorted")
    out = place.directory / "out" / "sorted"
    assert read(out / "exact.jsonl") == exact
    assert read(out / "questions.jsonl") == [mixed[0]]
    assert [trace.id for trace in read(out / "demonstrations.jsonl")] == ["b0", "b2", "a0", "a2", "s"]
    assert (printed["exact"], printed["questions_only"], printed["questions"], printed["unusable"]) == (3, 3, 1, 1)
    assert (printed["demonstrations"], printed["demonstrations_only"]) == (5, 1)
    counts = {"exact": 3, "questions": 1, "demonstrations": 5}
    assert printed["written"] == {f"out/sorted/{name}.jsonl": count for name, count in counts.items()}
    assert TraceReplay(read(out / "exact.jsonl")).group_size == 3
    again_printed = report(place, "-f", "out/sorted/exact.jsonl")
    assert (again_printed["exact"], again_printed["problems"]) == (3, []), "what was sorted out passes"


def test_no_key_reaches_the_files_and_the_report_is_of_what_they_hold(place: Workplace) -> None:
    key = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5q"
    group = sound_group()
    write(place, with_calls(group[0], text=f"Use {key}"), *group[1:], *sound_group("h"))
    printed = report(place, "-f", "t.jsonl", "--out", "sorted")
    assert (printed["exact"], found(printed)) == (3, {"redacted": 1, "no_ids": 1, "mixed_group": 1})
    for file in (place.directory / "sorted").iterdir():
        assert key not in file.read_text("utf-8")


def test_filters_that_can_cut_a_group_are_told(place: Workplace) -> None:
    write(place, *sound_group(rewards=[1.0, 0.5, 0.0]))
    cut = report(place, "-f", "t.jsonl", "--min-reward", "0.5")
    assert (cut["exact"], sum("Whole groups" in sentence for sentence in cut["not_checked"])) == (2, 1)
    for filters in ((), ("--group", "g"), ("--text", "asked")):
        assert "Whole groups" not in str(report(place, "-f", "t.jsonl", *filters)["not_checked"])


def test_nothing_to_train_on_is_status_1_and_writes_nothing(place: Workplace) -> None:
    write(place, sound("u", group=None, reward=None, reference=None), more='{"id": "half')
    printed = report(place, "-f", "t.jsonl", "--out", "sorted", status=1)
    assert (printed["trainable"], printed["written"]) == (False, None)
    assert found(printed) == {"unscored": 1, "no_group": 1, "torn": 1}
    assert not (place.directory / "sorted").exists()
    shown = place.run("traces", "validate", "-f", "t.jsonl")
    assert shown.returncode == 1
    assert shown.stdout.endswith("\nNothing can be trained on.\n")


def test_options_say_what_is_held_against_the_traces(place: Workplace) -> None:
    old = [with_calls(trace, policy="planner@v2") for trace in sound_group("a")]
    cool = [sampled(sampled(trace), temperature=0.4) for trace in sound_group("b", rewards=[0.5, 0.0])]
    write(place, *old, *cool, *sound_group("c"), sound("d", group=None, reference=None, reward=0.5))
    everything = ("-f", "t.jsonl")
    assert report(place, *everything)["exact"] == 3
    assert report(place, *everything, "--max-staleness", "1")["exact"] == 6
    assert report(place, *everything, "--for", "planner@v4")["exact"] == 0
    assert report(place, *everything, "--for", "planner@v4", "--max-staleness", "2")["exact"] == 6
    assert found(report(place, *everything, "--temperature", "0.4"))["other_temperature"] == 9
    assert report(place, *everything, "--success", "0.5")["demonstrations_only"] == 1
    assert report(place, *everything, "--judge")["questions"] == 3
    assert report(place, *everything, "--group", "c")["trajectories"] == 3, "the filters hold here, too"


def test_questions_of_benchmarks_are_kept_out(place: Workplace) -> None:
    games = [{"question": [1, 2], "query": BENCHMARK}]
    (place.directory / "games.json").write_text(json.dumps(games), "utf-8")
    traces = [trace.model_copy(update={"question": f"Say it: {BENCHMARK}"}) for trace in sound_group()]
    starter = sound("s", group=None, question="What is 387 times 246? Think step by step.")
    write(place, *traces, starter)
    printed = report(place, "-f", "t.jsonl")
    assert (printed["exact"], printed["unusable"], printed["benchmarks"]) == (3, 1, {"starter": 90})
    assert any("Overlap" in sentence for sentence in printed["not_checked"])
    printed = report(place, "-f", "t.jsonl", "--benchmark", "games.json", status=1)
    assert (printed["exact"], printed["unusable"]) == (0, 4)
    assert printed["overlaps"] == {"starter": {"same": 1}, "games": {"contained": 3}}
    assert found(printed) == {"benchmark": 4, "no_group": 1}
    examples = next(problem["examples"] for problem in printed["problems"] if problem["kind"] == "benchmark")
    assert examples[0] == f"g0 (contained in games: {BENCHMARK})"
    assert not any("Overlap" in sentence for sentence in printed["not_checked"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-f", "none.jsonl"), "There is no none.jsonl"),
        ((), "There are no runs yet"),
        (("-f", "t.jsonl", "--for", "planner@three"), "names no policy version"),
        (("-f", "t.jsonl", "--temperature", "0"), "--temperature must be a number above 0."),
        (("-f", "t.jsonl", "--success", "nan"), "--success must be a number."),
        (("-f", "t.jsonl", "--benchmark", "none.json"), "none.json cannot be read"),
        (("-f", "t.jsonl", "--benchmark", "starter.json"), "There are two benchmarks named starter"),
        (("-f", "t.jsonl", "--model", "nobody/nothing"), "No tokenizer can be loaded from nobody/nothing"),
        (("-f", "t.jsonl", "--out", "full"), "full is not empty: give --out a new directory."),
        (("-f", "t.jsonl", "--out", "t.jsonl"), "t.jsonl cannot be used"),
        (("-f", "-", "--out", "new"), "standard input only comes once"),
    ],
)
def test_what_cannot_be_done_is_status_2_and_a_sentence(
    place: Workplace, options: tuple[str, ...], message: str
) -> None:
    write(place, *sound_group())
    (place.directory / "full").mkdir()
    (place.directory / "full" / "exact.jsonl").touch()
    (place.directory / "starter.json").write_text('[{"question": "a"}]', "utf-8")
    done = place.run("traces", "validate", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (place.directory / "new").exists()


def test_people_read_the_uses_first_and_nothing_a_trace_says_reaches_the_terminal(place: Workplace) -> None:
    evil = "\x1b[31mred\x1b]0;title\x07"
    traces = [
        *sound_group("a"),
        *(with_calls(trace, policy=evil) for trace in sound_group(evil)),
        sound("\x1b[2Jid", group=None, reward=None),
    ]
    write(place, *traces, more=json.dumps({"id": "x", evil: 1}) + "\n")
    done = place.run("traces", "validate", "-f", "t.jsonl")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert [line.split("\t")[:2] for line in lines[:5]] == [
        ["exact", "3"], ["questions only", "4"], ["demonstrations", "4"], ["unusable", "0"], ["of", "7"]
    ]  # fmt: skip
    assert lines[0].endswith("1 groups, 6 planner calls, 18 sampled tokens")
    status, shown = place.run_on_terminal("traces", "validate", "-f", "t.jsonl")
    assert status == 0
    assert "title" not in shown
    assert "\x1b[31m" not in shown
    assert "\x1b[2Jid" not in shown
    report_lines = [line for line in shown.split("\r\n") if "sampled tokens" in line]
    assert len(report_lines) == 1


def test_a_trace_that_changes_while_it_is_sorted_is_not_written(place: Workplace) -> None:
    group = sound_group()
    files = SortedFiles(sort(group), place.directory / "out")
    with files:
        files.write(group[0])
        files.write(sound("stranger"))
        with pytest.raises(TraceError, match="g1 has changed since it was read"):
            files.write(group[1].model_copy(update={"reward": 1.0}))
    assert files.written == {Use.EXACT: 1, Use.QUESTION: 0, Use.DEMONSTRATION: 1}


def test_files_that_were_not_finished_do_not_appear(place: Workplace) -> None:
    group = sound_group()
    out = place.directory / "out"
    with pytest.raises(TraceError), SortedFiles(sort(group), out) as files:
        files.write(group[1].model_copy(update={"reward": 1.0}))
    assert list(out.iterdir()) == []
