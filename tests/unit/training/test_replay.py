import pytest

from graph.errors import RolloutError, TraceError
from graph.trace import Trajectory
from tests.trajectories import make_trajectory
from training.replay import TraceReplay


def _trajectory(name: str, group: str | None, reward: float | None, temperature: float = 0.7) -> Trajectory:
    return make_trajectory(
        name, group=group, reward=reward, planner_calls=[([1], [2], [-0.1])], temperature=temperature
    )


def test_copies_of_a_prompt_get_its_recorded_trajectories_and_none_beyond() -> None:
    a0, a1, a2 = (_trajectory(f"a{i}", "a", float(i)) for i in range(3))
    b0 = _trajectory("b0", "b", None)
    replay = TraceReplay([a0, b0, a1, a2])
    assert replay.group_size == 3
    assert replay.temperature == 0.7
    assert replay.prompts() == [{"prompt": "a"}, {"prompt": "b"}]
    batch = [{"prompt": prompt} for prompt in ("b", "b", "b", "a", "a", "a")]
    assert replay(batch) == [b0, None, None, a0, a1, a2]
    assert replay(batch) == [b0, None, None, a0, a1, a2], "the next epoch gets them again"


def test_trajectories_of_no_group_are_counted_and_left_out() -> None:
    replay = TraceReplay([_trajectory("a0", "a", 0.0), _trajectory("x", None, 1.0), _trajectory("a1", "a", 1.0)])
    assert replay.ungrouped == 1
    assert list(replay.groups) == ["a"]


@pytest.mark.parametrize(
    "rewards",
    [[], [1.0], [None, None], [1.0, None], [0.5, 0.5, None]],
    ids=str,
)
def test_groups_without_contrast_teach_nothing(rewards: list[float | None]) -> None:
    with pytest.raises(RolloutError, match="nothing to learn"):
        TraceReplay(_trajectory(str(i), "a", reward) for i, reward in enumerate(rewards))


def test_two_temperatures_are_two_distributions() -> None:
    with pytest.raises(RolloutError, match=r"found 0\.5, 0\.7"):
        TraceReplay([_trajectory("0", "a", 0.0, 0.5), _trajectory("1", "a", 1.0, 0.7)])


def test_a_scored_trajectory_without_ids_is_refused_and_a_failed_one_is_not() -> None:
    good = [_trajectory("0", "a", 0.0), _trajectory("1", "a", 1.0)]
    broken = _trajectory("2", "a", 1.0)
    calls = tuple(call.model_copy(update={"logprobs": None}) for call in broken.calls)
    broken = broken.model_copy(update={"calls": calls})
    TraceReplay([*good, broken.model_copy(update={"reward": None})])
    with pytest.raises(TraceError, match="trajectory 2"):
        TraceReplay([*good, broken])
