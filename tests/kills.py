"""What a killed run must do. Collected by the tests of each database, which provide the fixture `url`."""

import asyncio
import json
import random
from pathlib import Path

import pytest

from graph.prompt import hash_messages
from graph.records import StopReason
from graph.storage.database import open_database
from tests.fakes import ANALYSIS, GO_ON, STOP, ScriptedServer, answer, command, plan
from tests.flows import scripts
from tests.killable import Killable

SETTLED = 0.4
"""Seconds after which a process has surely committed what it has."""


@pytest.mark.parametrize("role", ["analyzer", "planner", "executor", "verifier", "generator"])
def test_killed_during_a_model_call(role, url, tmp_path):
    """The call under way is made again; every call before it is not, and no tool runs twice."""
    reply = scripts()[role][0]
    with ScriptedServer(scripts(**{role: [{"text": reply, "delay": 30}, reply]})) as server:
        killable = Killable(url, server, tmp_path)
        killable.kill_when(lambda: server.count(role) == 1, after=SETTLED)
        done = killable.finish()
    assert (done.id, done.stop, done.answer) == (killable.run, StopReason.VERIFIED, "42")
    assert {name: server.count(name) for name in scripts()} == dict.fromkeys(scripts(), 1) | {role: 2}
    assert killable.counts == ["a"]
    assert not done.turns[0].observations[0].repeated


def test_killed_during_a_tool(url, tmp_path):
    """Of three calls at once, the two whose results were committed are not repeated; the third is, and says so."""
    calls = command({"text": "a"}, {"text": "b", "wait": 2.0}, {"text": "c"})
    with ScriptedServer(scripts(executor=[calls])) as server:
        killable = Killable(url, server, tmp_path)
        killable.kill_when(lambda: len(killable.counts) == 3, after=SETTLED)
        done = killable.finish()
    assert (done.stop, done.answer) == (StopReason.VERIFIED, "42")
    assert {name: server.count(name) for name in scripts()} == dict.fromkeys(scripts(), 1)
    assert sorted(killable.counts) == ["a", "b", "b", "c"]
    assert [(o.arguments["text"], o.content, o.repeated) for o in done.turns[0].observations] == [
        ("a", "noted a", False),
        ("b", "noted b", True),
        ("c", "noted c", False),
    ]


def test_killed_again_and_again_in_one_place(url, tmp_path):
    replies = [{"text": STOP, "delay": 30}] * 3 + [STOP]
    with ScriptedServer(scripts(verifier=replies)) as server:
        killable = Killable(url, server, tmp_path)
        for attempt in (1, 2, 3):
            killable.kill_when(lambda n=attempt: server.count("verifier") == n, after=SETTLED)
        done = killable.finish()
    assert done.answer == "42"
    assert server.roles == ["analyzer", "planner", "executor", *["verifier"] * 4, "generator"]
    assert killable.counts == ["a"]


def test_killed_before_its_first_call(url, tmp_path):
    """Only its row is there: it starts over from what was asked, all of it."""
    with ScriptedServer(scripts()) as server:
        killable = Killable(url, server, tmp_path)
        killable.die_at("run")
        assert server.roles == []
        done = killable.finish()
    assert (done.id, done.stop, done.answer) == (killable.run, StopReason.VERIFIED, "42")
    assert (done.group, done.reference) == ("g", ("42",))
    assert server.roles == ["analyzer", "planner", "executor", "verifier", "generator"]


def three_turns() -> ScriptedServer:
    """Replies that follow from what is asked, whoever asks: three turns of two calls each."""

    def turns(body) -> int:
        return body["messages"][-1]["content"].count("Sub-goal: goal")

    def planner(body):
        return plan(sub_goal=f"goal {turns(body)}")

    def executor(body):
        goal = body["messages"][-1]["content"].split("Sub-goal: goal ")[1][0]
        return command({"text": f"{goal}-a", "wait": 0.02}, {"text": f"{goal}-b"})

    def verifier(body):
        return STOP if turns(body) == 3 else GO_ON

    replies = {"analyzer": ANALYSIS, "planner": planner, "executor": executor, "verifier": verifier}
    return ScriptedServer(
        {**{role: [reply] for role, reply in replies.items()}, "generator": [answer("42")]}, repeat=True
    )


async def committed(url: str, run: str) -> tuple[set[str], set[str]]:
    """Return what the database holds of a run: hashes of the prompts of its calls, and texts that its tool noted."""
    async with open_database(url) as database:
        found = [item async for item in database.saver.alist({"configurable": {"thread_id": run}})]
    writes = [(channel, value) for item in found for _, channel, value in item.pending_writes or ()]
    calls = {call.prompt_hash for channel, value in writes if channel == "calls" for call in value}
    notes = {
        event.arguments["text"]
        for channel, value in writes
        if channel == "turns"
        for event in value
        if hasattr(event, "arguments")
    }
    return calls, notes


async def finished(url: str, run: str) -> bool:
    """Return whether a run came to its end, which its process may not have lived to tell."""
    async with open_database(url) as database:
        row = await database.runs.get(run)
    return row is not None and row.status == "finished"


@pytest.mark.parametrize("seed", range(12))
def test_killed_at_any_time(seed, url, tmp_path: Path):
    """After every kill, nothing that was committed is asked or done again, and the answer is the right one."""
    chance = random.Random(seed)
    with three_turns() as server:
        killable = Killable(url, server, tmp_path)
        for _ in range(chance.randint(1, 3)):
            moment = len(server.requests) + len(killable.counts) + chance.randint(0, 6)
            killable.kill_when(
                lambda m=moment: len(server.requests) + len(killable.counts) >= m, after=chance.random() * 0.05
            )
            calls, notes = asyncio.run(committed(url, killable.run or ""))
            asked, noted = len(server.requests), len(killable.counts)
            if asyncio.run(finished(url, killable.run or "")):
                break
        else:
            done = killable.finish()
            assert done.answer == "42", done.error
            again = {hash_messages(body["messages"]) for body in server.requests[asked:]}
            assert not again & calls
            assert not set(killable.counts[noted:]) & notes
            assert [o.content for turn in done.turns for o in turn.observations] == [
                f"noted {turn}-{name}" for turn in range(3) for name in "ab"
            ]
            assert len({json.dumps(body["messages"]) for body in server.requests}) == 11
            for note in {n for n in killable.counts if killable.counts.count(n) > 1}:
                observation = next(o for t in done.turns for o in t.observations if o.arguments["text"] == note)
                assert observation.repeated
