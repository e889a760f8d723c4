"""Branching a run from one of its turns."""

import pytest

from graph.errors import ConfigError
from graph.fork import fork_run
from graph.records import StopReason
from tests.fakes import GO_ON, STOP, ScriptedServer, answer, command, plan
from tests.flows import open_flow, scripts


def parent(**changes):
    return (
        scripts(
            planner=[plan(sub_goal="first"), plan(sub_goal="second")],
            executor=[command({"text": "a"}), command({"text": "b"})],
            verifier=[GO_ON, STOP],
        )
        | changes
    )


async def test_another_sub_goal_from_the_second_turn(counting, tmp_path):
    with ScriptedServer(parent()) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            first = await runner.ask("What is 40 + 2?", tags=["t"])
            asked = len(server.requests)
            server.scripts |= {"executor": [command({"text": "c"})], "verifier": [STOP], "generator": [answer("43")]}
            fork = await fork_run(runner, first.id, turn=2, sub_goal="other")
            second = await runner.drive_fork(fork)
            row = await runner.database.runs.get(fork)
            unchanged = await runner.database.runs.trajectory(first.id)
    assert server.roles[asked:] == ["executor", "verifier", "generator"]
    assert (second.id, second.parent, second.answer, second.stop) == (fork, first.id, "43", StopReason.VERIFIED)
    assert second.turns[0] == first.turns[0]
    assert (second.turns[1].plan.sub_goal, second.turns[1].plan.tool) == ("other", "count_calls")
    assert counting.read_text().split() == ["a", "b", "c"]
    assert (row.parent, row.status) == (first.id, "finished")
    assert unchanged == first
    kept = [call for call in second.calls if call.turn <= 0 and call.role != "generator"]
    assert [call.role for call in kept] == ["analyzer", "planner", "executor", "verifier"]
    assert [call.prompt_hash for call in kept] == [call.prompt_hash for call in first.calls[:4]]
    assert all(call.messages for call in second.calls)


async def test_a_turn_planned_anew(counting, tmp_path):
    with ScriptedServer(parent()) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            first = await runner.ask("What is 40 + 2?")
            asked = len(server.requests)
            anew = {"planner": [plan(sub_goal="anew")], "executor": [command({"text": "c"})], "verifier": [STOP]}
            server.scripts |= parent(**anew)
            second = await runner.drive_fork(await fork_run(runner, first.id, turn=1))
    assert server.roles[asked:] == ["planner", "executor", "verifier", "generator"]
    assert [turn.plan.sub_goal for turn in second.turns] == ["anew"]
    assert "(empty)" in server.of("planner")[-1]["messages"][-1]["content"]


async def test_a_fork_of_a_failed_run(counting, tmp_path):
    with ScriptedServer(parent(verifier=[GO_ON, {"status": 400}])) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            first = await runner.ask("What is 40 + 2?")
            assert first.stop is StopReason.FAILED
            server.scripts |= {"executor": [command({"text": "c"})], "verifier": [STOP]}
            second = await runner.drive_fork(await fork_run(runner, first.id, turn=2, sub_goal="other"))
    assert (second.answer, second.error) == ("42", None)


async def test_a_turn_that_had_no_plan(counting, tmp_path):
    replies = parent(planner=["no plan", plan()], executor=[command({"text": "a"})], verifier=[STOP])
    with ScriptedServer(replies) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            first = await runner.ask("What is 40 + 2?")
            with pytest.raises(ConfigError, match="no tool None on offer; known are count_calls"):
                await fork_run(runner, first.id, turn=1, sub_goal="x")
            server.scripts |= {"executor": [command({"text": "c"})], "verifier": [STOP], "generator": [answer("43")]}
            fork = await fork_run(runner, first.id, turn=1, sub_goal="x", tool="count_calls")
            second = await runner.drive_fork(fork)
    assert [turn.plan.sub_goal for turn in second.turns] == ["x"]


async def test_a_fork_with_fewer_tools_keeps_what_can_be_rendered(counting, tmp_path):
    """The kept turns name a tool that is not offered any more."""
    file = str(tmp_path / "runs.db")
    with ScriptedServer(parent()) as server:
        async with open_flow(server, file) as runner:
            first = await runner.ask("What is 40 + 2?")
        server.scripts |= scripts(
            planner=[plan("generate")], executor=[command({"query": "q"})], generate=["g"], generator=[answer("43")]
        )
        async with open_flow(server, file, tools={"enabled": ["generate"], "custom": []}) as runner:
            second = await runner.drive_fork(await fork_run(runner, first.id, turn=2))
    assert (second.answer, second.error) == ("43", None)
    assert next(call for call in second.calls if call.role == "executor").messages is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"turn": 0}, "has turns 1 to 2, not 0"),
        ({"turn": 3}, "has turns 1 to 2, not 3"),
        ({"turn": -1}, "has turns 1 to 2, not -1"),
        ({"turn": 1, "tool": "count_calls"}, "--tool goes with --sub-goal"),
        ({"turn": 1, "sub_goal": "x", "tool": "cook"}, "no tool 'cook' on offer; known are count_calls"),
    ],
)
async def test_what_cannot_be_forked(options, sentence, counting, tmp_path):
    with ScriptedServer(parent()) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            first = await runner.ask("What is 40 + 2?")
            with pytest.raises(ConfigError, match=sentence):
                await fork_run(runner, first.id, **options)
            with pytest.raises(ConfigError, match="has no turns to fork from"):
                await fork_run(runner, "nothing", turn=1)
