"""The `generate` tool: a model's own knowledge."""

from tests.fakes import STOP, ScriptedServer, command, plan
from tests.flows import Events, open_flow, scripts

ONLY = {"enabled": ["generate"], "custom": []}


def asking(*replies, queries=("What is a leap year?",)):
    calls = command(*({"query": query} for query in queries))
    return scripts(planner=[plan("generate")], executor=[calls], generate=replies, verifier=[STOP])


async def test_its_words_arrive_as_they_are_written():
    events = Events()
    with ScriptedServer(asking("A year of 366 days.")) as server:
        async with open_flow(server, tools=ONLY) as runner:
            done = await runner.ask("q", on_event=events)
    assert done.turns[0].observations[0].content == "A year of 366 days."
    told = [event.data["text"] for event in events.of("token") if event.data["module"] == "generate"]
    assert "".join(told) == "A year of 366 days."


async def test_a_server_that_fails_is_an_observation():
    """The run goes on with what it has: the planner may choose another tool."""
    with ScriptedServer(asking({"status": 500, "message": "out of memory"})) as server:
        async with open_flow(server, tools=ONLY) as runner:
            done = await runner.ask("q")
    (observation,) = done.turns[0].observations
    assert observation.status == "error"
    assert "answered 500: out of memory" in observation.content
    assert (done.answer, done.error) == ("42", None)


async def test_it_ends_with_the_runs_time():
    with ScriptedServer(asking({"text": "late", "delay": 30})) as server:
        async with open_flow(server, tools=ONLY, budgets={"max_seconds": 1.5}) as runner:
            done = await runner.ask("q")
    (observation,) = done.turns[0].observations
    assert (observation.status, done.stop, done.answer) == ("timeout", "MAX_SECONDS", "42")
    assert observation.content.endswith("all that was left to the run.")


async def test_nothing_said_is_said():
    with ScriptedServer(asking("  ")) as server:
        async with open_flow(server, tools=ONLY) as runner:
            done = await runner.ask("q")
    assert done.turns[0].observations[0].content == "(no answer)"
