"""What every database must do with trajectories. Collected by the tests of each database, which provide `url`."""

import asyncio
from dataclasses import fields

import pytest
from sqlalchemy import text

from graph.feedback import Feedback, new_feedback, with_feedback
from graph.records import Observation, Plan, StopReason, Turn
from graph.storage.database import open_database
from graph.storage.packing import pack
from graph.trace import Trajectory
from graph.traces.selection import Selection
from tests.any_trajectory import realistic
from tests.trajectories import make_call

ROW_OF_VERSION_1 = """
INSERT INTO runs (id, conversation, parent, question, request, status, stop, answer, turns, seconds, error, owner, tags,
  created, updated, trajectory)
VALUES (:id, 'c', NULL, 'q', '{"question": "q"}', :status, :stop, '42', 1, 1.0, NULL, NULL, '["a", "b"]', :created, 2.0,
  :trajectory)
"""


def make(name: str, **changes) -> Trajectory:
    values = {"id": name, "question": f"Question {name}?", "stop": StopReason.VERIFIED, "created": 1.0}
    return Trajectory(**values | changes)


def varied() -> list[Trajectory]:
    """Trajectories that differ in everything that can be filtered by."""
    turn = Turn(
        plan=Plan(sub_goal="s", tool="python"),
        observations=(Observation(tool="python", arguments={}, status="ok", content="4"),),
    )
    call = make_call("planner", 0, policy="planner@v3")
    return [
        make("a", created=10.0, tags=("x", "y"), source="ask", conversation="c"),
        make("b", created=20.0, tags=("x",), dataset="bamboogle", source="evaluation"),
        make("c", created=20.0, turns=(turn,), calls=(call,), group="g", source="rollout", dataset="d" * 300),
        make("d", created=30.0, turns=(turn,), reward=0.25, reward_source="exact", conversation="c" * 300),
        make("e", created=40.0, reward=1.0, reward_source="judge", question="Is 100 % of ö_x here?"),
        make("f", created=None, stop=StopReason.FAILED, error="It broke."),
    ]


SELECTIONS = [
    Selection(),
    Selection(since=20.0),
    Selection(until=20.0),
    Selection(since=20.0, until=40.0),
    Selection(conversation="c"),
    Selection(conversation="c" * 300),
    Selection(conversation="C"),
    Selection(group="g"),
    Selection(tags=("x",)),
    Selection(tags=("x", "y")),
    Selection(tags=("z",)),
    Selection(dataset="bamboogle"),
    Selection(dataset="d" * 300),
    Selection(source="rollout"),
    Selection(policy="planner@v3"),
    Selection(policy="planner"),
    Selection(stop=StopReason.FAILED),
    Selection(scored=True),
    Selection(scored=False),
    Selection(min_reward=0.25),
    Selection(max_reward=0.25),
    Selection(min_reward=0.5, max_reward=0.75),
    Selection(tool="python"),
    Selection(text="100 %"),
    Selection(text="QUESTION"),
    Selection(text="ö_"),
    Selection(tags=("x",), source="ask", text="a?"),
]


def test_every_filter_is_tried():
    tried = {field.name for chosen in SELECTIONS for field in fields(Selection) if getattr(chosen, field.name)}
    assert tried | {"scored"} == {field.name for field in fields(Selection)}


async def test_filters_choose_the_same_as_in_files(url):
    """A trajectory whose time is unknown is listed as of its import: times are not compared for it."""
    found = varied()
    async with open_database(url) as database:
        for trajectory in found:
            assert await database.traces.add(trajectory)
        for chosen in SELECTIONS:
            expected = {trajectory.id for trajectory in found if chosen.matches(trajectory)}
            expected |= {"f"} if chosen.since and not chosen.until else set()
            streamed = [trajectory async for trajectory in database.traces.stream(chosen)]
            assert {trajectory.id for trajectory in streamed} == expected, chosen
            assert all(trajectory in found for trajectory in streamed), chosen
            assert {row.id for row in await database.traces.rows(chosen, limit=10)} == expected, chosen
            assert await database.traces.count(chosen) == len(expected), chosen


async def test_streams_go_through_every_page_once_in_order(url):
    async with open_database(url) as database:
        for number in range(100):
            await database.traces.add(make(f"run-{number:03}", created=float(number // 7)))
        streamed = [trajectory.id async for trajectory in database.traces.stream(Selection())]
        assert streamed == [f"run-{number:03}" for number in range(100)]
        latest = await database.traces.rows(Selection(), limit=3)
        assert [row.id for row in latest] == ["run-099", "run-098", "run-097"]


async def test_what_is_added_comes_back_whole_and_only_once(url):
    whole = realistic(1).model_copy(update={"id": "whole", "feedback": (Feedback(at=1.5, verdict="good"),)})
    whole = with_feedback(whole, whole.feedback)
    async with open_database(url) as database:
        assert await database.traces.add(whole)
        assert not await database.traces.add(whole.model_copy(update={"question": "Another?"}))
        assert [found async for found in database.traces.stream(Selection())] == [whole]
        assert await database.traces.get("whole") == whole
        assert len(await database.traces.feedback("whole")) == 1


async def test_text_that_postgresql_refuses_is_added(url):
    odd = make("odd", question="a\x00b", answer="\x00", tags=("t\x00",), error=None)
    async with open_database(url) as database:
        assert await database.traces.add(odd)
        assert await database.traces.get("odd") == odd


async def test_runs_that_go_on_are_left_out(url):
    async with open_database(url) as database:
        await database.traces.add(make("a"))
        await database.runs.resume("a")
        assert [found async for found in database.traces.stream(Selection())] == []


async def test_the_last_verdict_is_the_reward_and_can_be_withdrawn(url):
    async with open_database(url) as database:
        await database.traces.add(make("a", reward=1.0, reward_source="exact", reference=("42",)))
        await database.traces.say("a", new_feedback(verdict="good", note="well done"))
        await database.traces.say("a", new_feedback(verdict="bad", answer="43", author="ada"))
        await database.traces.say("a", new_feedback(note="more"))
        found = await database.traces.get("a")
        assert (found.reward, found.reward_source, found.reference) == (0.0, "human", ("43",))
        assert [(said.verdict, said.note, said.author) for said in found.feedback] == [
            ("good", "well done", None),
            ("bad", None, "ada"),
            (None, "more", None),
        ]
        assert [row.id for row in await database.traces.rows(Selection(max_reward=0.0), limit=9)] == ["a"]
        assert await database.traces.withdraw("a") == 3
        found = await database.traces.get("a")
        assert (found.reward, found.reward_source, found.reference) == (1.0, "exact", ("42",))
        assert [row.reward for row in await database.traces.rows(Selection(), limit=9)] == [1.0]
        assert await database.traces.withdraw("a") == 0


@pytest.mark.parametrize("stop", [StopReason.FAILED, StopReason.CANCELLED])
async def test_failures_get_no_reward_whatever_is_said(url, stop):
    async with open_database(url) as database:
        await database.traces.add(make("a", stop=stop))
        await database.traces.say("a", new_feedback(verdict="bad"))
        found = await database.traces.get("a")
        assert (found.reward, found.reward_source, len(found.feedback)) == (None, None, 1)
        assert await database.traces.rows(Selection(scored=True), limit=9) == []


async def test_many_say_something_at_once(url):
    async with open_database(url) as database:
        await database.traces.add(make("a"))
        said = [new_feedback(verdict="good" if number % 2 else "bad") for number in range(20)]
        await asyncio.gather(*(database.traces.say("a", remark) for remark in said))
        found = await database.traces.get("a")
        assert len(found.feedback) == 20
        assert [row.reward for row in await database.traces.rows(Selection(), limit=9)] == [found.reward]


async def test_a_deleted_run_leaves_nothing(url):
    async with open_database(url) as database:
        await database.traces.add(varied()[2])
        await database.traces.say("c", new_feedback(verdict="good"))
        await database.delete("c")
        assert await database.traces.add(make("c"))
        assert await database.traces.feedback("c") == []
        assert (await database.traces.facets(["c"]))["c"] == {"tag": [], "tool": [], "policy": []}


async def test_a_database_of_version_1_is_brought_up_to_date(url, make_version_1):
    """Its runs are found by their tags, tools and policies; one that is damaged does not stand in the way."""
    whole = varied()[2].model_copy(update={"tags": ("a", "b")})
    rows = [
        {"id": "c", "status": "finished", "stop": "VERIFIED", "created": 20.0, "trajectory": pack(whole)},
        {"id": "damaged", "status": "finished", "stop": "VERIFIED", "created": 21.0, "trajectory": b"damaged"},
        {"id": "running", "status": "running", "stop": None, "created": 22.0, "trajectory": None},
    ]
    await make_version_1([(text(ROW_OF_VERSION_1), row) for row in rows])
    for _ in range(2):
        async with open_database(url) as database:
            assert [row.id for row in await database.runs.latest()] == ["running", "damaged", "c"]
            assert [found async for found in database.traces.stream(Selection(tool="python"))] == [whole]
            assert [row.id for row in await database.traces.rows(Selection(policy="planner@v3"), limit=9)] == ["c"]
            assert await database.traces.count(Selection(tags=("b",))) == 2
    async with open_database(url) as database:
        await database.traces.say("c", new_feedback(verdict="good"))
        await database.traces.add(make("new", conversation="x" * 300, parent="y" * 200))
        assert await database.traces.count(Selection(scored=True)) == 1


async def test_many_are_added_at_once_and_those_there_already_left(url):
    first, second = realistic(1).model_copy(update={"id": "a"}), make("b", tags=("x", "x"))
    async with open_database(url) as database:
        assert await database.traces.add_many([first, second, second]) == 2
        assert await database.traces.add_many([second.model_copy(update={"question": "?"}), make("c")]) == 1
        assert {found.id: found async for found in database.traces.stream(Selection())} == {
            "a": first, "b": second, "c": make("c")
        }  # fmt: skip
        assert (await database.traces.facets(["b"]))["b"]["tag"] == ["x"]
        added = await asyncio.gather(*(database.traces.add_many([make(f"d{n}") for n in range(9)]) for _ in range(5)))
        assert sum(added) == 9
