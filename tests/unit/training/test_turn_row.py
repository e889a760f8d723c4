from typing import Any

import pytest

from graph.errors import TraceError
from tests.trajectories import make_call, make_trajectory
from training.turn_row import TurnRow, rows_of

CALL = ([1, 2], [3, 4], [-0.5, -1.5])
SAMPLED = {"temperature": 0.7, "top_p": 1.0, "constrained": False}


def test_a_row_for_each_planner_call_and_none_for_the_others() -> None:
    second = ([1, 2, 5], [], [])
    trajectory = make_trajectory("t", group="g", reward=1.0, planner_calls=[CALL, second], temperature=0.7)
    assert [call.role for call in trajectory.calls] == ["planner", "executor"] * 2
    assert rows_of(trajectory) == (
        TurnRow((1, 2), (3, 4), (-0.5, -1.5), 0.7, "t", "g"),
        TurnRow((1, 2, 5), (), (), 0.7, "t", "g"),
    )


def test_a_direct_answer_has_no_rows() -> None:
    assert rows_of(make_trajectory("t", group="g", reward=1.0, planner_calls=[])) == ()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"prompt_ids": None}, "no token ids"),
        ({"completion_ids": None, "logprobs": None}, "no token ids"),
        ({"logprobs": None}, "no token ids"),
        ({"sampling": None}, "does not say how it was sampled"),
        ({"sampling": SAMPLED | {"constrained": True}}, "under a schema"),
        ({"sampling": SAMPLED | {"temperature": 0.0}}, "not sampled"),
        ({"sampling": {}}, "not sampled"),
        ({"sampling": SAMPLED | {"temperature": "0.7"}}, "not sampled"),
        ({"sampling": SAMPLED | {"top_p": 0}}, "sampled with top_p:"),
        ({"sampling": SAMPLED | {"top_p": 0.9}}, "sampled with top_p:"),
        ({"sampling": SAMPLED | {"extra": {"top_k": 20, "min_p": 0.1}}}, "sampled with top_k and min_p:"),
        ({"sampling": SAMPLED | {"top_p": [1], "extra": ["top_k"]}}, "with top_p and extra:"),
        ({"sampling": SAMPLED | {"top_k": 20, "extra": {"xtc_probability": 0.5}}}, "with top_k and xtc_probability:"),
        ({"sampling": SAMPLED | {"extra": {"stop": ["."], "guided_json": {}}}}, "sampled with stop and guided_json:"),
    ],
    ids=str,
)
def test_a_call_that_cannot_be_trained_on_exactly_is_named(fields: dict[str, Any], said: str) -> None:
    trajectory = make_trajectory("t-7", group="g", reward=1.0, planner_calls=[CALL], temperature=0.7)
    exact = {"prompt_ids": [1, 2], "completion_ids": [3, 4], "logprobs": [-0.5, -1.5], "sampling": SAMPLED}
    bad = make_call("planner", 1, **(exact | fields))
    with pytest.raises(TraceError, match=rf"Planner call 1 of trajectory t-7 .*{said}"):
        rows_of(trajectory.model_copy(update={"calls": (*trajectory.calls, bad)}))


def test_harmless_extras_are_no_reason_to_refuse() -> None:
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 0, "min_p": 0.0}
    trajectory = make_trajectory("t", group="g", reward=1.0, planner_calls=[CALL], extra=extra)
    assert len(rows_of(trajectory)) == 1
