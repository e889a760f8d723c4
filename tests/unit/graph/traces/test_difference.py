"""Two trajectories of one question, which differ in one thing that the test knows of."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from graph.errors import ConfigError
from graph.prompt import hash_messages
from graph.records import Command, Exchange, Fault, Observation, Plan, QueryAnalysis, StopReason, Turn, Usage, Verdict
from graph.trace import TracedCall, Trajectory
from graph.traces.difference import difference
from graph.traces.planner_difference import first_difference, planner_difference
from tests.any_trajectory import realistic, trajectories
from tests.trajectories import make_call


def turn(sub_goal: str = "g", *, stop: bool = False, **fields: Any) -> Turn:
    return Turn(
        **{
            "plan": Plan(sub_goal=sub_goal, tool="python", justification="j", context="c"),
            "command": Command(tool="python", calls=({"code": "1"},)),
            "observations": (Observation(tool="python", arguments={"code": "1"}, status="ok", content="1"),),
            "verdict": Verdict(analysis="v", stop=stop),
        }
        | fields
    )


def planned(*ids: list[int], prompt: list[int] | None = None, **fields: Any) -> tuple[TracedCall, ...]:
    """The planner's calls of so many turns, as a server with ids leaves them."""
    return tuple(
        make_call(
            "planner",
            number,
            **{
                "prompt_ids": prompt or [7] * (number + 5),
                "prompt_hash": f"{number:016}",
                "completion_ids": sampled,
                "logprobs": [-0.5 * (place + 1) for place in range(len(sampled))],
            }
            | fields,
        )
        for number, sampled in enumerate(ids)
    )


def trajectory(*turns: Turn, name: str = "a", **fields: Any) -> Trajectory:
    return Trajectory(
        **{"id": name, "question": "Why?", "turns": turns, "answer": "42", "stop": StopReason.VERIFIED} | fields
    )


def test_equal_ones():
    one = realistic(3)
    found = difference(one, one.model_copy(update={"id": "other", "seconds": 99.0, "reward": 1.0}))
    assert found.equal
    assert (found.equal_turns, found.first, found.planner, found.worded) == (3, None, None, [])
    assert found.b.seconds == 99.0


@pytest.mark.parametrize(
    ("other", "kind", "theirs"),
    [
        (turn("h"), "plan", {"sub_goal": "h", "tool": "python"}),
        (turn(command=Command(tool="python", calls=({"code": "2"},))), "command", None),
        (turn(observations=()), "results", None),
        (turn(stop=True), "verdict", {"stop": True}),
        (turn(plan=None, faults=(Fault(module="planner", message="no"),)), "plan", {"unusable": ["no"]}),
        (turn(command=None, faults=(Fault(module="executor", message="no"),)), "command", {"unusable": ["no"]}),
        (turn(verdict=None), "verdict", None),
    ],
)
def test_the_first_step_that_differs(other: Turn, kind: str, theirs: Any):
    found = difference(trajectory(turn(), turn(), turn()), trajectory(turn(), other, turn("z"), name="b"))
    assert not found.equal
    assert found.first is not None
    assert (found.equal_turns, found.first.kind, found.first.turn) == (1, kind, 1)
    if theirs is not None:
        assert found.first.b == theirs
    assert ("plan", 2) in found.later


def test_how_long_a_call_took_is_no_difference():
    slow = Observation(tool="python", arguments={"code": "1"}, status="ok", content="1", seconds=9, cached=True)
    assert difference(trajectory(turn()), trajectory(turn(observations=(slow,)))).equal


def test_one_goes_on_where_the_other_ends():
    found = difference(trajectory(turn(stop=True)), trajectory(turn(), turn(stop=True), name="b"))
    assert found.first is not None
    assert (found.equal_turns, found.first.kind, found.first.a, found.first.b) == (
        0,
        "verdict",
        {"stop": True},
        {"stop": False},
    )
    assert found.later == [("plan", 1), ("command", 1), ("results", 1), ("verdict", 1)]
    assert (found.a.turns, found.b.turns) == (1, 2)


def test_one_that_was_stopped_has_nothing_where_the_other_goes_on():
    stopped = trajectory(turn(), stop=StopReason.CANCELLED, answer=None)
    found = difference(stopped, trajectory(turn(), turn("h"), name="b"))
    assert found.first is not None
    assert (found.equal_turns, found.first.kind, found.first.a) == (1, "plan", None)
    assert found.first.b == {"sub_goal": "h", "tool": "python"}
    assert found.later[-2:] == [("answer", -1), ("end", -1)]


def test_only_the_answers_differ():
    found = difference(trajectory(turn()), trajectory(turn(), answer="43"))
    assert found.first is not None
    assert (found.equal_turns, found.first.kind, found.first.a, found.first.b) == (1, "answer", "42", "43")


def test_analyses_that_differ_hide_no_turn():
    one = trajectory(turn(), turn("h"), analysis=QueryAnalysis(summary="s"))
    other = trajectory(turn(), turn("i"), analysis=QueryAnalysis(summary="t"))
    found = difference(one, other)
    assert found.first is not None
    assert found.first_in_turns is not None
    assert (found.first.kind, found.first_in_turns.kind, found.first_in_turns.turn) == ("analysis", "plan", 1)
    assert found.equal_turns == 1


def test_other_words_are_told_and_are_no_other_way():
    reworded = turn(plan=Plan(sub_goal="g", tool="python", justification="k", context="c"))
    found = difference(trajectory(turn()), trajectory(reworded))
    assert found.first is None
    assert not found.equal
    (point,) = found.worded
    assert (point.kind, point.turn, point.a["justification"], point.b["justification"]) == ("plan", 0, "j", "k")


def test_different_questions():
    with pytest.raises(ConfigError, match="a and b answer different questions: compare two"):
        difference(trajectory(), trajectory(name="b", question="How?"))


def test_a_follow_up_is_compared_as_it_stands_alone():
    alone = trajectory(question="What is the  capital of Spain?")
    asked = QueryAnalysis(summary="", question="What is the capital of Spain?")
    followed = trajectory(question="And of Spain?", analysis=asked, history=(Exchange(question="x", answer="y"),))
    assert difference(alone, followed).first is not None
    other = trajectory(question="And of Spain?", history=(Exchange(question="z", answer="y"),))
    with pytest.raises(ConfigError):
        difference(followed, other)


def test_a_follow_up_that_was_rewritten_in_two_ways_is_one_question():
    history = (Exchange(question="x", answer="y"),)
    one, other = (
        trajectory(question="And?", history=history, analysis=QueryAnalysis(summary="", question=rewritten))
        for rewritten in ("What of x?", "What about x?")
    )
    found = difference(one, other)
    assert found.first is not None
    assert found.first.kind == "analysis"


def test_the_same_prompt_and_another_sample():
    one = trajectory(turn(), turn(), calls=planned([1, 2, 3], [1, 5, 9]))
    other = trajectory(turn(), turn(), calls=planned([1, 2, 3], [1, 6]))
    found = planner_difference(one, other)
    assert found is not None
    assert (found.turn, found.same_prompt, found.prompt_by, found.same_sample, found.sample_by) == (
        1,
        True,
        "ids",
        False,
        "ids",
    )
    assert (found.position, found.ids, found.logprobs) == (1, (5, 6), (-1.0, -1.0))
    assert not difference(one, other).equal


def test_a_sample_that_ends_earlier_has_no_id_there():
    found = planner_difference(trajectory(turn(), calls=planned([1, 2])), trajectory(turn(), calls=planned([1])))
    assert found is not None
    assert (found.position, found.ids, found.logprobs) == (1, (2, None), (-1.0, None))


def test_prompts_that_differ_already():
    messages = [{"role": "user", "content": "x"}]
    shared = {"messages": messages, "prompt_hash": hash_messages(messages)}  # type: ignore[arg-type]
    one = trajectory(turn(), calls=planned([1], prompt=[4, 5, 6], **shared))
    other = trajectory(turn(), calls=planned([1], prompt=[4, 5, 7, 8], **shared))
    found = planner_difference(one, other)
    assert found is not None
    assert (found.same_prompt, found.prompt_position, found.same_sample, found.position) == (False, 2, True, None)
    assert found.same_messages, "the tokenizer or the chat template differ"


@pytest.mark.parametrize(
    ("fields", "by", "same"),
    [
        ({"prompt_hash": "0" * 16}, "hash", True),
        ({"prompt_hash": None, "messages": ({"role": "user", "content": "x"},)}, "messages", True),
        ({"prompt_hash": None}, None, None),
    ],
)
def test_without_ids_prompts_are_compared_by_what_there_is_and_samples_by_their_text(fields, by, same):
    one, other = (trajectory(turn(), calls=(make_call("planner", 0, text=text, **fields),)) for text in ("abc", "abd"))
    found = planner_difference(one, other)
    assert found is not None
    assert (found.prompt_by, found.same_prompt, found.sample_by, found.position) == (by, same, "text", 2)
    assert (found.ids, found.logprobs) == ((None, None), (None, None))


def test_a_turn_that_the_user_planned_is_compared_with_no_call():
    one = trajectory(turn(), turn("h"), calls=planned([1], [2]))
    _first, second = planned([1], [3])
    fork = trajectory(turn("chosen"), turn("h"), calls=(second,), parent="a", parent_turns=0)
    found = planner_difference(one, fork)
    assert found is not None
    assert (found.turn, found.ids) == (1, (2, 3))


def test_settings_that_differ():
    one = trajectory(
        config_hash="1",
        tools=("a", "b"),
        prompts={"planner": "p", "verifier": "v"},
        versions={"agentflow": "1", "langgraph": "1"},
        calls=(make_call("planner", -1, sampling={"temperature": 0.5, "top_p": 1.0}, policy="planner@v1"),),
    )
    other = trajectory(
        config_hash="2",
        tools=("a",),
        prompts={"planner": "q"},
        versions={"agentflow": "2", "langgraph": "1"},
        calls=(make_call("planner", -1, sampling={"temperature": 0.7, "top_p": 1.0}, policy="planner@v2"),),
    )
    found = {setting.name: (setting.a, setting.b) for setting in difference(one, other).settings}
    assert found == {
        "policy": ("planner@v1", "planner@v2"),
        "config_hash": ("1", "2"),
        "tools": (["a", "b"], ["a"]),
        "prompts.planner": ("p", "q"),
        "planner.temperature": (0.5, 0.7),
        "versions.agentflow": ("1", "2"),
    }


def test_what_only_one_knows_is_no_difference_in_settings():
    imported = trajectory(calls=(make_call("planner", -1, model=None, sampling=None),))
    assert difference(trajectory(config_hash="1", tools=("a",), prompts={"planner": "p"}), imported).settings == []


def test_summaries_add_up_what_is_known():
    calls = (
        make_call("planner", -1, usage=Usage(prompt=10, completion=2)),
        make_call("executor", -1, usage=Usage(prompt=5, cached=1)),
    )
    found = difference(trajectory(turn(), calls=calls, reward=1.0, reward_source="exact"), trajectory(turn()))
    assert (found.a.prompt_tokens, found.a.cached_tokens, found.a.completion_tokens) == (15, 1, 2)
    assert (found.b.prompt_tokens, found.b.seconds, found.b.reward) == (None, None, None)
    assert (found.a.tools, found.a.reward_source) == ({"python": 1}, "exact")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trajectories(), trajectories())
def test_any_two_trajectories(one: Trajectory, other: Trajectory):
    assert difference(one, one).equal
    other = other.model_copy(update={"question": one.question, "history": one.history})
    there, back = difference(one, other), difference(other, one)
    assert there.equal == back.equal
    assert (there.equal_turns, there.later) == (back.equal_turns, back.later)
    json.dumps(there.as_json(), allow_nan=False)


def test_first_difference():
    assert first_difference("abc", "abd") == 2
    assert first_difference("ab", "abd") == 2
    assert first_difference((), ()) is None
    assert first_difference([1], []) == 0
