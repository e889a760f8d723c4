"""Files of the original AgentFlow, as its solver, its evaluation and its rollouts write them."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from graph.records import StopReason
from graph.trace import Trajectory
from graph.traces.foreign.original import is_original, read_original
from graph.traces.foreign.record import LeftOut, UnreadableRecordError

SAMPLES = Path(__file__).parent / "samples"
OUTPUT = SAMPLES / "output_3.json"
STEP_1, STEP_2 = (SAMPLES / "train" / step / "idx_17" for step in ("step_1", "step_2"))


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def read(path: Path, **changes: Any) -> Trajectory:
    return read_original(load(path) | changes, path, LeftOut())


def with_step(**fields: Any) -> Trajectory:
    """A run of one step whose memory holds these fields."""
    action = {"tool_name": "T_Tool", "sub_goal": "s", "command": "", "result": ["r"], **fields}
    return read_original({"query": "q", "memory": {"Action Step 1": action}}, OUTPUT, LeftOut())


def test_an_evaluations_output():
    run = read(OUTPUT)
    assert run.question.startswith("Which river flows through the capital of Austria?")
    assert (run.source, run.reference, run.answer) == ("import", ("Danube", "the Danube"), "Danube")
    assert run.solution == "Vienna is the capital of Austria, and the Danube flows through it."
    assert (run.stop, run.seconds, run.tags) == (StopReason.VERIFIED, 41.73, ("origin:3",))
    assert (run.reward, run.reward_source, run.group, run.created, run.error) == (None, None, None, None, None)
    assert run.analysis is not None
    assert run.analysis.summary == "The query asks which river flows through the capital of Austria."
    assert run.analysis.tools == ("Wikipedia_RAG_Search_Tool", "Generalist_Solution_Generator_Tool")


def test_its_steps_are_turns():
    first, second = read(OUTPUT).turns
    assert first.plan is not None
    assert first.plan.model_dump() == {
        "justification": 'A page on Vienna names it, and "Danube" isn\'t sure yet.',
        "context": "Capital: Vienna",
        "sub_goal": "Find the river in Vienna.",
        "tool": "Wikipedia_RAG_Search_Tool",
    }
    assert first.command is not None
    assert first.command.calls == ({"query": "river through Vienna"},)
    (page,) = first.observations
    assert (page.status, json.loads(page.content)["relevant_pages"]) == ("ok", [])
    assert first.verdict is not None
    assert (first.verdict.stop, first.verdict.analysis[:18]) == (False, "No page was releva")
    assert [(one.arguments, one.content) for one in second.observations] == [
        ({"query": "Name the river in Vienna, not the canal"}, "The Danube flows through Vienna."),
        ({"query": "How long is the Danube?"}, "2,850 km"),
    ]
    assert second.plan is not None
    assert (second.plan.justification, second.plan.context) == ("The generator knows it.", "Capital: Vienna")
    assert second.verdict is not None
    assert second.verdict.stop


def test_its_calls_have_what_is_recorded_and_nothing_else():
    calls = read(OUTPUT).calls
    roles = ["planner", "executor", "verifier"]
    assert [(call.role, call.turn) for call in calls] == [
        ("analyzer", -1),
        *((role, turn) for turn in (0, 1) for role in roles),
        ("generator", -1),
        ("generator", -1),
    ]
    verifier = calls[3]
    assert verifier.messages is not None
    assert [message["role"] for message in verifier.messages] == ["user"]
    assert verifier.messages[0]["content"].startswith("Task: Evaluate")
    assert calls[0].messages is None
    for call in calls:
        unknown = (call.model, call.policy, call.prompt_hash, call.completion_ids, call.logprobs, call.sampling)
        assert unknown == (None,) * 6
        assert (call.at, call.seconds, call.usage.prompt) == (None, None, None)


def test_a_rollout():
    run = read(STEP_1 / "rollout_0a.json")
    assert (run.question, run.reference) == ("Which river flows through the capital of Austria?", ("Danube",))
    assert (run.answer, run.reward, run.reward_source) == ("Danube", 1.0, "judge")
    assert run.created == 1759400130.25
    assert run.tools == ("Base_Generator_Tool", "Wikipedia_Search_Tool")
    assert {call.model for call in run.calls_of("planner")} == {"Qwen/Qwen2.5-7B-Instruct"}
    assert {call.model for call in run.calls if call.role != "planner"} == {None}
    assert run.solution == "Vienna lies on the Danube. <answer>Danube</answer>"


def test_rollouts_of_one_question_and_step_are_a_group():
    groups = [read(STEP_1 / f"rollout_0{name}.json").group for name in "abc"]
    assert len(set(groups)) == 1
    assert read(STEP_2 / "rollout_1a.json").group not in groups
    assert read(STEP_1 / "rollout_0a.json", groundtruth="Inn").group not in groups


def test_steps_of_the_question_before_are_left_out():
    left_out = LeftOut()
    path = STEP_1 / "rollout_0b.json"
    run = read_original(load(path), path, left_out)
    assert left_out == {"step of an earlier question": 1}
    (turn,) = run.turns
    assert (turn.plan, turn.command, turn.observations, turn.verdict) == (None, None, (), None)
    (fault,) = turn.faults
    assert fault.module == "planner"
    assert fault.message.startswith("No matched tool given: Map_Tool: No result")
    assert fault.output == "I would use the map tool."
    assert (run.reward, run.stop) == (0.0, None)
    assert run.analysis is not None
    assert run.analysis.summary == "The query is about a river. Tools: Wikipedia."


def test_a_run_that_failed_is_not_graded():
    left_out = LeftOut()
    path = STEP_1 / "rollout_0c.json"
    run = read_original(load(path), path, left_out)
    assert (run.stop, run.answer, run.reward, run.reward_source) == (StopReason.FAILED, None, None, None)
    assert run.error
    assert left_out == {"reward of a run that failed": 1}
    refused = read(OUTPUT, direct_output={"error": "RateLimitError", "message": "429"})
    assert (refused.stop, refused.error, refused.answer) == (StopReason.FAILED, "RateLimitError: 429", None)


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ("We should not stop yet.", None),
        ("stop", None),
        ("Conclusion: we cannot stop", None),
        ("Conclusion: STOP\nOn reflection:\nConclusion: CONTINUE", False),
        ("Explanation:\nfine\n\n**Conclusion:** STOP", True),
        ("## Conclusion\n\nstop.", True),
        ('{"analysis": "a", "stop_signal": true}', True),
        ("analysis='do not stop' stop_signal=False", False),
        ("{'error': 'APIError', 'message': 'stop'}", None),
    ],
)
def test_a_verdict_is_read_from_its_structure_alone(text: str, stop: bool | None):
    run = read_original({"query": "q", "step_count": 1, "verifier_1_response": text}, OUTPUT, LeftOut())
    verdict = run.turns[0].verdict
    assert (verdict.stop if verdict else None) is stop
    assert run.stop is (StopReason.VERIFIED if stop else None)
    assert run.calls[0].text == text


@pytest.mark.parametrize(
    ("command", "calls"),
    [
        ('execution = tool.execute(query="a", k=[1, {"x": None}])', ({"query": "a", "k": [1, {"x": None}]},)),
        ("q = 'a'\nexecution = tool.execute(query=q)  # why", ({"query": "a"},)),
        ("execution = tool.execute()", ({},)),
        ("execution = tool.execute('a')", None),
        ("execution = tool.execute(query=f'{x}')", None),
        ("execution = tool.execute(query=open('/etc/passwd').read())", None),
        ("import os\nexecution = tool.execute(query='a')", None),
        ("execution = tool.execute(**{'query': 'a'})", None),
        ("execution = tool.execute(query='a'", None),
        ("(" * 3000, None),
    ],
)
def test_commands_are_read_and_never_run(command: str, calls: tuple[dict[str, Any], ...] | None):
    turn = with_step(command=command).turns[0]
    expected = ({"command": command},) if calls is None else calls
    assert turn.command is not None
    assert turn.command.calls == expected
    assert turn.observations[0].arguments == expected[0]


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (["Error: 404 is a status that pages speak of"], "ok"),
        ([{"printed_output": "4", "variables": {}}], "ok"),
        ([{"error": "name 'x' is not defined"}], "error"),
        ([{"error": "Execution timed out after 60 seconds"}], "timeout"),
        (["Execution timed out after 120 seconds"], "timeout"),
        (["No execution captured from block: x = 1"], "error"),
        ("Error in execute_tool_command: no module", "error"),
    ],
)
def test_a_result_is_a_failure_where_the_original_marks_it(result: Any, status: str):
    assert [one.status for one in with_step(result=result).turns[0].observations] == [status]


def test_a_command_that_ran_nothing():
    turn = with_step(command="execution = tool.execute(\n    query='a')", result=[]).turns[0]
    assert turn.observations == ()
    assert [fault.module for fault in turn.faults] == ["executor"]
    assert turn.command is not None


@pytest.mark.parametrize("store", [json.dumps, repr, dict])
def test_a_memory_that_was_stored_as_text(store: Any):
    record = load(OUTPUT)
    assert read(OUTPUT, memory=store(record["memory"])).turns == read(OUTPUT).turns


def test_a_memory_of_code_is_not_run(tmp_path: Path):
    mark = tmp_path / "mark"
    run = read(OUTPUT, memory=f"{{'Action Step 1': open({str(mark)!r}, 'w')}}")
    assert not mark.exists()
    assert len(run.turns) == 2  # from the numbered fields


def test_ids_are_of_the_content():
    record = load(OUTPUT)
    turned = dict(reversed(record.items()))
    same = {read_original(one, Path("/elsewhere/x.json"), LeftOut()).id for one in (record, turned)}
    assert same == {read(OUTPUT).id}
    assert read(OUTPUT, execution_time=41.74).id not in same


def test_an_analysis_that_failed_is_none():
    said = "{'error': 'NotFoundError', 'message': 'no such model', 'details': ('…',)}"
    run = read(OUTPUT, query_analysis=said)
    assert run.analysis is None
    assert run.calls[0].text == said


def test_what_is_one_of_its_files():
    assert is_original(load(OUTPUT))
    assert is_original(load(STEP_1 / "rollout_0c.json"))
    assert not is_original({"query": "q", "answer": "a"})
    assert not is_original({"query": "q", "base_response": "a model alone, no run"})
    assert not is_original([load(OUTPUT)])
    with pytest.raises(UnreadableRecordError, match="no question"):
        read_original({"query": " ", "memory": {}}, OUTPUT, LeftOut())


def test_reading_changes_nothing():
    record = load(OUTPUT)
    before = copy.deepcopy(record)
    read_original(record, OUTPUT, LeftOut())
    assert record == before
