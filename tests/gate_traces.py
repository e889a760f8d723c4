"""Makes trajectories that the gate before training finds nothing wrong with, to be spoilt one defect at a time."""

from collections.abc import Iterable
from typing import Any

from evals.overlap import BenchmarkQuestions
from graph.prompt import Message, hash_messages
from graph.records import Plan, StopReason, Turn
from graph.trace import TracedCall, Trajectory
from training.gate.gate import Gate
from training.gate.settings import GateSettings
from training.gate.sorting import Sorting

BENCHMARK = "Which city hosted the games in the year in which the tower of the old bridge was finished?"
SAMPLING: dict[str, Any] = {"temperature": 0.7, "top_p": 1.0, "max_tokens": 512, "seed": None, "constrained": False}


def sound_call(turn: int, name: str, **fields: Any) -> TracedCall:
    """A planner's call that can be trained on; `fields` override."""
    messages = (
        Message(role="system", content="You plan."),
        Message(role="user", content=f"Turn {turn}"),
    )
    values: dict[str, Any] = {
        "role": "planner",
        "turn": turn,
        "policy": "planner@v3",
        "messages": messages,
        "prompt_hash": hash_messages(messages),
        "text": f"plan {turn} of {name}",
        "prompt_ids": (1, 2, 3 + turn),
        "completion_ids": (*name.encode(), turn),
        "logprobs": (*(-0.5 for _ in name.encode()), -0.1),
        "finish_reason": "stop",
        "sampling": SAMPLING,
    }
    return TracedCall(**values | fields)


def sound(
    name: str, *, group: str | None = "g", reward: float | None = 1.0, turns: int = 2, **fields: Any
) -> Trajectory:
    """A trajectory of `turns` turns, each planned; an executor's call without ids follows each plan."""
    calls = [
        call
        for turn in range(turns)
        for call in (sound_call(turn, name), TracedCall(role="executor", turn=turn, text="{}"))
    ]
    values: dict[str, Any] = {
        "id": name,
        "source": "rollout",
        "group": group,
        "question": f"What is asked in {group}?",
        "reference": ("42",),
        "turns": tuple(Turn(plan=Plan(sub_goal="g", tool="t")) for _ in range(turns)),
        "calls": tuple(calls),
        "stop": StopReason.VERIFIED,
        "reward": reward,
        "reward_source": None if reward is None else "exact",
        "config_hash": "c",
    }
    return Trajectory(**values | fields)


def sound_group(group: str = "g", rewards: Iterable[float | None] = (1.0, 0.0, 1.0)) -> list[Trajectory]:
    """A group that can be trained on; members are named `g0`, `g1` and so on."""
    return [sound(f"{group}{index}", group=group, reward=reward) for index, reward in enumerate(rewards)]


def with_calls(trajectory: Trajectory, **fields: Any) -> Trajectory:
    """The trajectory with other fields in its last planner call."""
    position = max(index for index, call in enumerate(trajectory.calls) if call.role == "planner")
    calls = list(trajectory.calls)
    calls[position] = TracedCall.model_validate(calls[position].model_dump() | fields)
    return trajectory.model_copy(update={"calls": tuple(calls)})


def sampled(trajectory: Trajectory, **asked: Any) -> Trajectory:
    """The trajectory with other settings of its last planner call."""
    return with_calls(trajectory, sampling=SAMPLING | asked)


def sort(trajectories: Iterable[Trajectory], **settings: Any) -> Sorting:
    """What the gate says of trajectories, held against one benchmark of one question."""
    gate = Gate(GateSettings(**settings), benchmarks=BenchmarkQuestions({"games": [BENCHMARK]}))
    for trajectory in trajectories:
        gate.add(trajectory)
    return gate.judge()
