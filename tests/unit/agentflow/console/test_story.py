import io
from typing import Any

import pytest

from agentflow.console.story import Story
from agentflow.console.terminal import PlainConsole
from graph.events import Event, EventKind
from graph.records import Command, Fault, ModelCall, Observation, Plan, Usage

RUN = "01234567-89ab-7000-8000-000000000000"


def told(*events: Event, verbose: bool = False) -> str:
    """What the events are printed as in a pipe."""
    console = PlainConsole(io.StringIO())
    with Story(console, stream=True, verbose=verbose) as story:
        for event in events:
            story(event)
    return console.file.getvalue()  # type: ignore[attr-defined]


def observed(index: int, content: str = "c", **fields: Any) -> Event:
    result = Observation(tool="t", arguments={}, status="ok", content=content).model_copy(update=fields)
    return Event.of(EventKind.OBSERVATION, {"index": index, **result.model_dump(mode="json")}, turn=0)


def started(resumed: bool = False) -> Event:
    return Event.of(EventKind.RUN, {"id": RUN, "question": "What?", "resumed": resumed})


def ended(stop: str) -> Event:
    end = {"id": RUN, "stop": stop, "answer": "a", "solution": "", "seconds": 1.25, "error": None}
    return Event.of(EventKind.DONE, end)


def test_calls_side_by_side_are_numbered():
    commanded = Event.of(EventKind.COMMAND, Command(tool="t", calls=({"a": 1}, {"a": "x\ny"})), turn=0)
    calls = [
        Event.of(EventKind.TOOL, {"index": i, "tool": "t", "arguments": arguments}, turn=0)
        for i, arguments in enumerate(({"a": 1, "b": "two"}, {"code": "x = 1\nprint(x)"}))
    ]
    assert told(commanded, *calls, observed(1), observed(0)).splitlines() == [
        "call 1    t(a=1, b='two')",
        "call 2    t",
        "          x = 1",
        "          print(x)",
        "result 2  c",
        "result 1  c",
    ]


def test_a_long_result_is_shortened_unless_everything_is_asked_for():
    lines = "\n".join(f"line {n}" for n in range(40))
    assert "line 39" not in told(observed(0, lines))
    assert "more characters)" in told(observed(0, lines))
    assert "line 39" in told(observed(0, lines), verbose=True)


def test_what_went_wrong_is_told_apart():
    output = told(
        observed(0, "no such file", status="error"),
        observed(0, "stopped after 2 s", status="timeout", repeated=True),
        Event.of(EventKind.FAULT, Fault(module="planner", message="There was no plan.", output="gibberish"), turn=0),
        verbose=True,
    )
    assert output.splitlines() == [
        "error     no such file",
        "timeout   stopped after 2 s  (run again)",
        "",
        "Turn 1",
        "fault     the planner's output could not be used: There was no plan.",
        "          gibberish",
    ]


def test_tokens_of_a_call_stand_below_what_it_brought():
    usage = Usage(prompt=340, cached=300, completion=12)
    call = ModelCall(
        role="planner", turn=0, model="m", prompt_hash="0", text="", usage=usage, seconds=2.0, first_token_seconds=0.5
    )
    plan = Event.of(EventKind.PLAN, Plan(sub_goal="Add", tool="python"), turn=0)
    output = told(Event.of(EventKind.CALL, call, turn=0), plan, plan, verbose=True)
    assert output.splitlines()[2:] == [
        "plan      Add → python  (2.0 s)",
        "          first token after 0.5 s · prompt 40 read + 300 cached, 12 written",
        "plan      Add → python",
    ]


@pytest.mark.parametrize(("policy", "note"), [("planner@v3", "planner@v3 · 2.0 s"), ("m", "2.0 s"), (None, "2.0 s")])
def test_the_policy_that_planned_is_named_unless_it_is_the_model_itself(policy, note):
    call = ModelCall(role="planner", turn=0, model="m", policy=policy, prompt_hash="0", text="", seconds=2.0)
    plan = Event.of(EventKind.PLAN, Plan(sub_goal="Add", tool="python"), turn=0)
    output = told(Event.of(EventKind.CALL, call, turn=0), plan)
    assert output.splitlines()[-1] == f"plan      Add → python  ({note})"


def test_a_run_is_told_from_its_question_to_its_end():
    assert told(started(), ended("MAX_SECONDS")).splitlines() == [
        "question  What?",
        "          the time was up · 1.2 s · run 01234567-89ab",
    ]
    assert told(started(resumed=True), ended("VERIFIED")).splitlines() == [
        "question  What?",
        f"          going on with run {RUN}",
        "          verified · 1.2 s · run 01234567-89ab",
    ]
