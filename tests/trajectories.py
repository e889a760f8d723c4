"""Makes trajectories for tests of the training code."""

from collections.abc import Sequence
from typing import Any

from graph.records import StopReason, Turn, Usage
from graph.trace import TracedCall, Trajectory


def make_trajectory(
    trajectory_id: str,
    *,
    group: str | None,
    reward: float | None,
    planner_calls: Sequence[tuple[list[int], list[int], list[float]]],
    temperature: float = 1.0,
    **sampling: Any,
) -> Trajectory:
    """A trajectory whose planner calls are given as (prompt ids, completion ids, log-probabilities).

    An executor's call follows each: it is in every real trace, and no part of the planner's training.
    """
    asked = {"temperature": temperature, "top_p": 1.0, "constrained": False, **sampling}
    calls = []
    for turn, (prompt_ids, completion_ids, logprobs) in enumerate(planner_calls):
        ids = {"prompt_ids": prompt_ids, "completion_ids": completion_ids, "logprobs": logprobs}
        calls.append(make_call("planner", turn, sampling=asked, **ids))
        calls.append(make_call("executor", turn, sampling={"temperature": 0.0, "constrained": True}))
    stop = StopReason.VERIFIED if reward is not None else StopReason.FAILED
    return Trajectory(
        id=trajectory_id,
        group=group,
        question="q",
        stop=stop,
        reward=reward,
        reward_source="exact" if reward is not None else None,
        turns=tuple(Turn() for _ in planner_calls),
        calls=tuple(calls),
    )


def make_call(role: str, turn: int, **fields: Any) -> TracedCall:
    """A call as a server without ids leaves it; `fields` override."""
    values: dict[str, Any] = {
        "role": role,
        "turn": turn,
        "model": "planner",
        "policy": None,
        "messages": None,
        "prompt_hash": "0" * 16,
        "text": "",
        "prompt_ids": None,
        "completion_ids": None,
        "logprobs": None,
        "finish_reason": "stop",
        "sampling": {},
        "usage": Usage(),
        "seconds": 0.0,
        "at": 0.0,
    }
    return TracedCall(**values | fields)
