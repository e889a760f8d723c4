"""The projection of a run that people, evaluations and training read."""

import json
import math

import pytest
from pydantic import ValidationError

from graph.errors import TraceError
from graph.projection import project
from graph.records import StopReason
from graph.trace import Trajectory
from tests.fakes import ANALYSIS, GO_ON, STOP, ScriptedServer, answer, command, plan
from tests.flows import open_flow, scripts


def three_turns() -> dict:
    return scripts(
        planner=["no plan", plan(sub_goal="first"), plan(sub_goal="second")],
        executor=[command({"text": "a", "size": 4000}), command({"text": "b"}, {"text": "c"})],
        verifier=[GO_ON, STOP],
    )


async def run(server: ScriptedServer, **settings) -> Trajectory:
    async with open_flow(server, **settings) as runner:
        return await runner.ask("What is 40 + 2?")


async def test_every_prompt_is_rendered_again_as_it_was_sent(counting):
    with ScriptedServer(three_turns()) as server:
        done = await run(server)
    assert len(done.calls) == len(server.requests) == 9
    for call, request in zip(done.calls, server.requests, strict=True):
        assert [dict(message) for message in call.messages] == request["messages"]


async def test_prompts_that_were_cut_to_the_budget_are_rendered_as_they_were_sent(counting):
    """Case 39: the observation is whole in the trace, and cut by rule in the prompts."""
    with ScriptedServer(three_turns()) as server:
        done = await run(server, budgets={"memory_chars": 900})
    assert len(done.turns[1].observations[0].content) == 4000
    for call, request in zip(done.calls, server.requests, strict=True):
        assert [dict(message) for message in call.messages] == request["messages"]
        assert len(request["messages"][-1]["content"]) < 1500
    assert "characters left out" in server.of("verifier")[0]["messages"][-1]["content"]


async def test_token_ids_come_back_whole(counting, tmp_path):
    """Cases 34 and 39: the server's own ids, from the record kept on disk; as many log-probabilities as ids."""
    replies = three_turns()
    with ScriptedServer(replies, owned_by="vllm") as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            done = await runner.ask("What is 40 + 2?")
            stored = await runner.database.runs.trajectory(done.id)
            state = (await runner.snapshot(done.id)).values
    assert stored == done
    sent = iter(server.requests)
    for call in done.calls:
        assert list(call.prompt_ids) == server.prompt_ids(next(sent))
        assert list(call.completion_ids) == [token for token, _ in server.tokenize(call.text)] + [-1]
        assert len(call.logprobs) == len(call.completion_ids)
        assert call.policy == "test-model"
    planner = [call for call in state["calls"] if call.role == "planner"]
    assert planner[0].prompt_shared == 0
    assert all(call.prompt_shared > 100 for call in planner[1:])
    assert [call.sampling["constrained"] for call in done.calls if call.role == "planner"] == [False] * 3


async def test_a_tool_that_asks_a_model_leaves_its_call(counting):
    replies = scripts(
        planner=[plan("generate")],
        executor=[command({"query": "What is a leap year?"}, {"query": "What is a week?"})],
        generate=["A year of 366 days.", "Seven days."],
    )
    with ScriptedServer(replies) as server:
        done = await run(server, tools={"enabled": ["generate"], "custom": []})
    calls = [call for call in done.calls if call.role == "generate"]
    assert {call.text for call in calls} == {"A year of 366 days.", "Seven days."}
    assert {call.messages[-1]["content"] for call in calls} == {"What is a leap year?", "What is a week?"}
    assert [call.turn for call in calls] == [0, 0]


async def test_what_a_trajectory_says(counting):
    with ScriptedServer(scripts()) as server:
        async with open_flow(server) as runner:
            done = await runner.ask("What is 40 + 2?", group="g", reference=["42"], tags=["t"])
    assert (done.schema_version, done.group, done.reference, done.tags) == (1, "g", ("42",), ("t",))
    assert (done.reward, done.reward_source, done.parent) == (None, None, None)
    assert done.tools == ("count_calls",)
    assert set(done.versions) == {"agentflow", "langgraph", "langchain-core"}
    assert len(done.config_hash) == 16
    assert "42" not in json.dumps(server.of("generator")[0]["messages"][-1])


async def test_json_there_and_back(counting):
    with ScriptedServer(three_turns(), owned_by="vllm") as server:
        done = await run(server)
    assert Trajectory.model_validate_json(done.model_dump_json()) == done


def test_other_versions_and_fields_are_refused():
    whole = {"id": "a", "question": "q", "stop": "VERIFIED"}
    Trajectory.model_validate(whole)
    for change in ({"schema_version": 2}, {"unknown": 1}, {"stop": "NEVER"}):
        with pytest.raises(ValidationError):
            Trajectory.model_validate(whole | change)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ({"completion_ids": [1, 2], "logprobs": [-0.5]}, "unequal_lengths"),
        ({"completion_ids": None, "logprobs": []}, "unequal_lengths"),
        ({"completion_ids": [1], "logprobs": [math.nan]}, "finite_number"),
        ({"completion_ids": [1], "logprobs": [-math.inf]}, "finite_number"),
        ({"turn": 1}, "call_without_turn"),
        ({"turn": -2}, "greater_than_equal"),
    ],
    ids=str,
)
def test_calls_that_cannot_be_are_refused(call, kind):
    whole = {"role": "planner", "turn": 0, "text": "", "completion_ids": [1], "logprobs": [-0.5]}
    Trajectory.model_validate({"id": "a", "question": "q", "turns": [{}], "calls": [whole]})
    with pytest.raises(ValidationError) as caught:
        Trajectory.model_validate({"id": "a", "question": "q", "turns": [{}], "calls": [whole | call]})
    assert [error["type"] for error in caught.value.errors()] == [kind]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"stop": "FAILED", "reward": 0.0, "reward_source": "exact"}, "graded_failure"),
        ({"stop": "CANCELLED", "reward": 1.0, "reward_source": "human"}, "graded_failure"),
        ({"reward": 1.0}, "unsourced_reward"),
        ({"reward_source": "human"}, "unsourced_reward"),
        ({"id": ""}, "string_too_short"),
        ({"id": "x" * 37}, "string_too_long"),
        ({"feedback": [{"at": 1.0}]}, "empty_feedback"),
    ],
    ids=str,
)
def test_trajectories_that_cannot_be_are_refused(fields, kind):
    with pytest.raises(ValidationError) as caught:
        Trajectory.model_validate({"id": "a", "question": "q", **fields})
    assert [error["type"] for error in caught.value.errors()] == [kind]


def test_a_state_without_a_question_is_no_trace():
    with pytest.raises(TraceError, match="holds no question"):
        project("run-1", {})


async def test_a_failed_run_keeps_what_it_did(counting):
    with ScriptedServer(scripts(verifier=[{"status": 400}])) as server:
        done = await run(server)
    assert (done.stop, done.reward) == (StopReason.FAILED, None)
    assert [call.role for call in done.calls] == ["analyzer", "planner", "executor"]
    assert done.turns[0].observations[0].content == "noted a"


async def test_analysis_names_only_tools_on_offer(counting):
    analysis = ANALYSIS.replace('["count_calls"]', '["Count Calls", "cook", "count_calls"]')
    with ScriptedServer(scripts(analyzer=[analysis], generator=[answer("42")])) as server:
        done = await run(server)
    assert done.analysis.tools == ("count_calls",)
