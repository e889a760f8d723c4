"""The circle on real parts: ask, trace, one Flow-GRPO step, hot-load, ask again.

The flow, its tools and storage, vLLM on CPU, TRL and PEFT are the ones that users have. Only the planner's model is
tiny, and the roles that are not trained answer from a script.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest

from evals.scorers.exact import exact
from graph.config import FlowConfig
from graph.policies.policy import versioned_name
from graph.runner import open_runner
from graph.storage.database import open_database
from graph.trace import Trajectory
from tests.served_policy import Call, control, forward, gap
from tests.tiny_planner import QUESTIONS, REFERENCE, TEMPERATURE, config, world
from training.serve import VLLMServer
from training.step import StepSettings, train_one_step
from training.turn_row import rows_of

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    # TRL 1.16 uses names that transformers has deprecated.
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),
]

GROUP_SIZE = 12
EXACT = 1e-3


def test_ask_trace_train_hot_load_and_ask_again(vllm_server: VLLMServer, tiny_planner: Path, tmp_path: Path) -> None:
    name = versioned_name("planner", 1)
    with world() as others:
        frozen = config(others.url, planner="planner", planner_url=vllm_server.base_url)
        trajectories = [_scored(found) for found in asyncio.run(_ask(frozen, GROUP_SIZE, tmp_path / "runs.db"))]
        assert {trajectory.reward for trajectory in trajectories} == {0.0, 1.0}
        assert {len(rows_of(trajectory)) for trajectory in trajectories} == {1, 2}, (
            "one and two turns, by what it chose"
        )
        calls = _planner_calls(trajectories, policy="planner")
        base = forward(tiny_planner, None, calls, temperature=TEMPERATURE)
        assert gap(calls, base) < EXACT

        settings = StepSettings(learning_rate=5e-3, lora_rank=8)
        adapter = train_one_step(trajectories, model=tiny_planner, out=tmp_path / name, settings=settings)
        control(vllm_server.base_url, lambda server: server.load_adapter(name, adapter))

        trained = config(others.url, planner=name, planner_url=vllm_server.base_url)
        again = asyncio.run(_ask(trained, 4, tmp_path / "runs.db"))
    new_calls = _planner_calls(again, policy=name)
    assert gap(new_calls, forward(tiny_planner, adapter, new_calls, temperature=TEMPERATURE)) < EXACT
    assert gap(new_calls, forward(tiny_planner, None, new_calls, temperature=TEMPERATURE)) > 10 * EXACT

    after = forward(tiny_planner, adapter, calls, temperature=TEMPERATURE)
    assert _gain(trajectories, base, after) > 0, "the step went where the rewards are"
    control(vllm_server.base_url, lambda server: server.unload_adapter(name))


async def _ask(flow: FlowConfig, times: int, database_file: Path) -> list[Trajectory]:
    """Ask each question `times` times, all at once, and read the traces back from the database."""
    async with open_database(str(database_file)) as database, open_runner(flow, database=database) as runner:
        asked = [
            runner.ask(question, group=question, reference=[REFERENCE]) for question in QUESTIONS for _ in range(times)
        ]
        trajectories = await asyncio.gather(*asked)
        stored = [await database.runs.trajectory(trajectory.id) for trajectory in trajectories]
    assert stored == trajectories
    assert [trajectory.error for trajectory in trajectories] == [None] * len(trajectories)
    return trajectories


def _scored(trajectory: Trajectory) -> Trajectory:
    score = exact(trajectory.answer or "", trajectory.reference or ())
    return trajectory.model_copy(update={"reward": score.value, "reward_source": "exact"})


def _planner_calls(trajectories: Sequence[Trajectory], *, policy: str) -> list[Call]:
    calls = []
    for trajectory in trajectories:
        for call in (call for call in trajectory.calls if call.role == "planner"):
            assert call.policy == policy
            assert call.prompt_ids is not None
            assert call.completion_ids is not None
            assert call.logprobs is not None
            calls.append((list(call.prompt_ids), list(call.completion_ids), list(call.logprobs)))
    return calls


def _gain(
    trajectories: Sequence[Trajectory], before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]
) -> float:
    """What the step is to raise, to first order: sum_i A_i 1/T_i sum_t mean_j of the log-probabilities' change.

    `before` and `after` hold a row for each planner call of the trajectories, in their order.
    """
    changes = iter([fmean(b - a for a, b in zip(*rows, strict=True)) for rows in zip(before, after, strict=True)])
    gain = 0.0
    for trajectory in trajectories:
        assert trajectory.reward is not None
        baseline = fmean(other.reward or 0.0 for other in trajectories if other.group == trajectory.group)
        gain += (trajectory.reward - baseline) * fmean(next(changes) for _ in rows_of(trajectory))
    return gain
