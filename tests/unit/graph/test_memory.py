"""The memory as text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.memory import cut, render_memory
from graph.records import Command, Fault, Observation, Plan, Turn, Verdict
from graph.weight import weight


def make_turn(content: str = "42", *, status: str = "ok", missing: str | None = None, **arguments) -> Turn:
    arguments = arguments or {"query": "6 * 7"}
    return Turn(
        plan=Plan(sub_goal="compute", tool="python"),
        command=Command(tool="python", calls=(arguments,)),
        observations=(Observation(tool="python", arguments=arguments, status=status, content=content),),
        verdict=None if missing is None else Verdict(analysis=missing, stop=False),
    )


def test_no_turns():
    assert render_memory([], 500) == "(empty)"


def test_a_turn_is_shown_whole():
    assert render_memory([make_turn(missing="The unit.")], 5000) == (
        "Turn 1\nSub-goal: compute\nTool: python\nCall: 6 * 7\nResult: 42\nMissing: The unit."
    )


def test_errors_timeouts_and_faults_are_named():
    turns = [
        make_turn("broke", status="error"),
        make_turn("too slow", status="timeout"),
        Turn(faults=(Fault(module="planner", message="There is no tool 'x'."),)),
    ]
    text = render_memory(turns, 5000)
    assert "Error: broke" in text
    assert "Timeout: too slow" in text
    assert text.endswith("Turn 3\nError in planner: There is no tool 'x'.")


def test_arguments_that_are_not_text_are_json():
    assert 'Call: a\n{"n": [1, "ü"]}\n3' in render_memory([make_turn(text="a", more={"n": [1, "ü"]}, size=3)], 5000)


def test_a_positive_verdict_is_not_in_the_memory():
    turn = make_turn().model_copy(update={"verdict": Verdict(analysis="All there.", stop=True)})
    assert "All there" not in render_memory([turn], 5000)


def test_a_long_result_is_cut_head_and_tail():
    """Case 39: by rule, at render time, with the number of characters left out."""
    text = render_memory([make_turn("H" * 4000 + "T" * 4000)], 2000)
    assert len(text) <= 2000
    head, _, tail = text.partition(" … [")
    assert head.endswith("H")
    assert text.endswith("T")
    left_out = int(tail.split()[0])
    assert left_out == 8000 - text.count("H") - text.count("T") + text.split("Result:")[0].count("T")


def test_the_oldest_results_are_cut_first():
    text = render_memory([make_turn("a " * 750), make_turn("b " * 750), make_turn("c " * 750)], 3700)
    assert text.count("c ") >= 749
    assert text.count("b ") >= 749
    assert 80 <= text.count("a ") < 750


def test_turns_that_do_not_fit_are_counted():
    text = render_memory([make_turn("x" * 500) for _ in range(60)], 2000)
    assert text.startswith("(")
    assert "earlier turns left out)" in text.splitlines()[0]
    assert "Turn 60" in text
    assert len(text) <= 2000


def test_earlier_turns_read_the_same_as_later_ones_are_added():
    turns = [make_turn(f"result {i}", missing="more") for i in range(10)]
    for count in range(1, 10):
        assert render_memory(turns, 50_000).startswith(render_memory(turns[:count], 50_000) + "\n\n")


def test_cut_keeps_short_texts_and_respects_tiny_limits():
    assert cut("abc", 3) == "abc"
    assert cut("abcdef" * 10, 5) == "abcde"


TURNS = st.lists(
    st.builds(
        make_turn,
        st.text(max_size=3000),
        status=st.sampled_from(["ok", "error", "timeout"]),
        missing=st.none() | st.text(max_size=300),
        query=st.text(max_size=1500),
    )
    | st.builds(lambda text: Turn(faults=(Fault(module="planner", message=text),)), st.text(max_size=3000)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60)
@given(TURNS, st.integers(500, 6000))
def test_any_memory_fits_its_budget_and_ends_with_the_last_turn(turns, budget):
    text = render_memory(turns, budget)
    assert len(text) <= budget
    assert text == render_memory(turns, budget)
    assert f"Turn {len(turns)}\n" in text or len(text) == budget


@given(st.text(max_size=400), st.integers(0, 500))
def test_cut_never_exceeds_its_limit(text, limit):
    short = cut(text, limit)
    assert len(short) <= limit
    if len(text) <= limit:
        assert short == text


@pytest.mark.parametrize("result", ["7" * 9000, "deadbeef0123" * 700, "首都" * 4000, "[1, 2.5], " * 900, "😀" * 4000])
def test_what_takes_many_tokens_is_cut_to_fewer_characters(result):
    """Case 39: a tokenizer spends a token on every digit, so a budget in characters alone would not hold."""
    text = render_memory([make_turn(result), make_turn(result)], 4000)
    assert weight(text) <= 4000
    assert "characters left out" in text
