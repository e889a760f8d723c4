"""What every database must do. Collected by the tests of each database, which provide the fixture `url`."""

import asyncio
import json
import multiprocessing
import threading
from multiprocessing.synchronize import Barrier

import pytest

from graph.errors import ConfigError, StorageError
from graph.records import Observation, Plan, StopReason, Turn
from graph.state import Request
from graph.storage.database import open_database
from graph.trace import Trajectory
from tests.fakes import GO_ON, ScriptedServer, answer, command, plan
from tests.flows import open_flow, scripts

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.flows", "graph.models.chat", "graph.tools.registry"])


def ask_in_a_process(url: str, name: str, together: Barrier, found: "multiprocessing.Queue[str]") -> None:
    """Ask a question in a process of its own, when all the processes are ready."""

    async def ask() -> str:
        with ScriptedServer(scripts(generator=[answer(name)])) as server:
            async with open_flow(server, url) as runner:
                run = await runner.ask(f"What does {name} say?")
        return run.id if run.answer == name else str(run.error)

    together.wait()
    try:
        found.put(asyncio.run(ask()))
    except StorageError as error:
        found.put(str(error))


def make_trajectory(run: str, *, answer: str = "42") -> Trajectory:
    turn = Turn(
        plan=Plan(sub_goal="s", tool="t"),
        observations=(Observation(tool="t", arguments={"n": [1, None, 2.5]}, status="ok", content="ü \U0001f600"),),
    )
    return Trajectory(id=run, question="q", turns=(turn,), answer=answer, stop=StopReason.VERIFIED, seconds=1.5)


async def start(database, run: str, question: str = "q", *, conversation: str | None = None) -> None:
    await database.runs.start(run, Request(question=question, conversation=conversation, tags=("a", "b")))


async def test_a_run_is_listed_from_its_start(url):
    async with open_database(url) as database:
        await start(database, "run-1", "Is 100 % of ö_x here?")
        row = await database.runs.get("run-1")
        assert (row.status, row.stop, row.answer, row.tags) == ("running", None, None, ["a", "b"])
        assert await database.runs.trajectory("run-1") is None


async def test_there_is_no_last_run_before_the_first(url):
    async with open_database(url) as database:
        assert await database.runs.get("last") is None


async def test_a_finished_run_comes_back_whole(url):
    async with open_database(url) as database:
        await start(database, "run-1")
        await database.runs.finish("run-1", "finished", make_trajectory("run-1"))
    async with open_database(url) as database:
        assert await database.runs.trajectory("run-1") == make_trajectory("run-1")
        row = await database.runs.get("run-1")
        assert (row.status, row.stop, row.answer, row.turns, row.seconds) == ("finished", "VERIFIED", "42", 1, 1.5)


async def test_a_failure_is_forgotten_when_the_run_goes_on(url):
    async with open_database(url) as database:
        await start(database, "run-1")
        await database.runs.finish("run-1", "failed", make_trajectory("run-1"), error="It broke.")
        assert (await database.runs.get("run-1")).error == "It broke."
        await database.runs.resume("run-1")
        row = await database.runs.get("run-1")
        assert (row.status, row.error) == ("running", None)


async def test_beginnings_of_ids(url):
    async with open_database(url) as database:
        for run in ("ab-1", "ab-2", "b_1", "bx1"):
            await start(database, run)
        assert (await database.runs.get("ab-2")).id == "ab-2"
        assert (await database.runs.get("b_")).id == "b_1"
        assert await database.runs.get("c") is None
        assert await database.runs.get("%") is None
        assert (await database.runs.get("last")).id == "bx1"
        with pytest.raises(ConfigError, match="Several runs begin with 'ab'"):
            await database.runs.get("ab")


async def test_lists_are_newest_first_and_filtered(url):
    async with open_database(url) as database:
        for number, question in enumerate(["What is 100 %?", "Who was ADA?", "What is 100 mm?"]):
            await start(database, f"run-{number}", question)
        await database.runs.finish("run-1", "finished", make_trajectory("run-1"))
        assert [row.id for row in await database.runs.latest()] == ["run-2", "run-1", "run-0"]
        assert [row.id for row in await database.runs.latest(1)] == ["run-2"]
        assert [row.id for row in await database.runs.latest(status="finished")] == ["run-1"]
        assert [row.id for row in await database.runs.latest(text="ada")] == ["run-1"]
        assert [row.id for row in await database.runs.latest(text="100 %")] == ["run-0"]


async def test_a_conversation_is_its_finished_runs_in_order(url):
    async with open_database(url) as database:
        for run in ("run-1", "run-2", "run-3"):
            await start(database, run, conversation="c")
        await start(database, "run-4", conversation="d")
        for run in ("run-1", "run-3", "run-4"):
            await database.runs.finish(run, "finished", make_trajectory(run))
        await database.runs.finish("run-2", "failed", make_trajectory("run-2"), error="e")
        assert [row.id for row in await database.runs.conversation("c")] == ["run-1", "run-3"]


async def test_text_that_databases_refuse_is_kept(url, counting):
    """NUL and half a surrogate pair, from the question to the answer."""
    odd = "a\x00b\ud83d\u2028'\";--"
    wild = json.loads(answer("42")) | {"answer": odd}
    server = ScriptedServer(
        scripts(planner=[plan(sub_goal=odd)], executor=[command({"text": odd})], generator=[json.dumps(wild)])
    )
    with server:
        async with open_flow(server, url) as runner:
            trajectory = await runner.ask(f"What is {odd}?")
            assert trajectory.error is None
            assert trajectory.answer == "ab\ufffd\u2028'\";--"
            assert await runner.database.runs.trajectory(trajectory.id) == trajectory


async def test_a_run_leaves_its_trajectory_and_can_be_deleted(url, counting):
    with ScriptedServer(scripts()) as server:
        async with open_flow(server, url) as runner:
            trajectory = await runner.ask("What is 40 + 2?", tags=("x",))
            assert await runner.database.runs.trajectory(trajectory.id) == trajectory
            await runner.database.delete(trajectory.id)
            assert await runner.database.runs.get(trajectory.id) is None
            assert not (await runner.flow.aget_state(runner.address(trajectory.id))).values


async def test_a_failed_run_is_resumed_by_another_process(url, counting):
    """Case 5 and 51: the failure is recorded, and nothing that was committed is asked again."""
    replies = scripts(
        planner=[plan(), plan()],
        executor=[command({"text": "a"}), command({"text": "b"})],
        verifier=[GO_ON, {"status": 500}, GO_ON.replace("false", "true")],
    )
    with ScriptedServer(replies) as server:
        async with open_flow(server, url) as runner:
            failed = await runner.ask("What is 40 + 2?")
            assert (failed.stop, failed.answer, failed.reward) == (StopReason.FAILED, None, None)
            row = await runner.database.runs.get(failed.id)
            assert row.status == "failed"
            assert "answered 500" in row.error
        async with open_flow(server, url) as runner:
            done = await runner.resume(failed.id)
        assert (done.id, done.stop, done.answer) == (failed.id, StopReason.VERIFIED, "42")
        assert done.turns[0] == failed.turns[0]
        assert {role: server.count(role) for role in set(server.roles)} == {
            "analyzer": 1,
            "planner": 2,
            "executor": 2,
            "verifier": 3,
            "generator": 1,
        }
    assert counting.read_text().split() == ["a", "b"]


async def test_many_runs_at_once_in_one_process(url, counting):
    with ScriptedServer(scripts(), repeat=True) as server:
        async with open_flow(server, url) as runner:
            found = await asyncio.gather(*(runner.ask(f"Question {i}?") for i in range(24)))
            assert {run.answer or run.error for run in found} == {"42"}
            assert len(await runner.database.runs.latest(100, status="finished")) == 24


def test_several_threads_with_loops_of_their_own(url, counting):
    """Case 43."""
    answers: list[str | None] = []

    async def ask(number: int) -> None:
        with ScriptedServer(scripts()) as server:
            async with open_flow(server, url) as runner:
                run = await runner.ask(f"Question {number}?")
                answers.append(run.answer or run.error)

    threads = [threading.Thread(target=lambda n=n: asyncio.run(ask(n))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["42"] * 4


async def test_twelve_processes_write_at_once(url, counting):
    """Case 43: a database that is not there yet, opened and written by all of them together."""
    together, found = _PROCESSES.Barrier(12), _PROCESSES.Queue()
    writers = [
        _PROCESSES.Process(target=ask_in_a_process, args=(url, f"writer-{n}", together, found)) for n in range(12)
    ]
    for writer in writers:
        writer.start()
    ids = {await asyncio.to_thread(found.get, timeout=120) for _ in writers}
    for writer in writers:
        writer.join()
    async with open_database(url) as database:
        assert {row.id for row in await database.runs.latest(100, status="finished")} == ids
    assert len(ids) == 12
