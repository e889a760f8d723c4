"""Numbers of trajectories, against numbers counted by hand."""

import json
import random
import statistics as stdlib
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph.records import Fault, Observation, StopReason, Turn, Usage
from graph.trace import Trajectory
from graph.traces.price import Price
from graph.traces.prices import Prices
from graph.traces.rewards import Rewards
from graph.traces.spread import ROOM, Spread
from graph.traces.statistics import By, GroupedStatistics, Statistics, group_names
from tests.any_trajectory import trajectories
from tests.trajectories import make_call

NO_PRICES = Prices()


def result(tool: str = "python", status: Any = "ok", **fields: Any) -> Observation:
    return Observation(tool=tool, arguments={}, status=status, content="", **fields)


def trajectory(name: str = "t", **fields: Any) -> Trajectory:
    return Trajectory(**{"id": name, "question": "q", "stop": StopReason.VERIFIED} | fields)


def planned_by(*policies: str | None) -> Trajectory:
    calls = tuple(make_call("planner", turn, policy=policy) for turn, policy in enumerate(policies))
    return trajectory(turns=tuple(Turn() for _ in policies), calls=calls)


def numbers_of(*found: Trajectory, prices: Prices = NO_PRICES) -> dict[str, Any]:
    statistics = Statistics(prices)
    for one in found:
        statistics.add(one)
    return json.loads(json.dumps(statistics.as_json()))


def test_endings_and_rewards():
    graded = {"reward_source": "exact"}
    numbers = numbers_of(
        *(trajectory(reward=1.0, **graded) for _ in range(15)),
        *(trajectory(reward=0.0, stop=StopReason.MAX_TURNS, **graded) for _ in range(133)),
        trajectory(stop=StopReason.FAILED),
        trajectory(stop=None),
    )
    assert numbers["trajectories"] == 150
    assert numbers["stops"] == {"VERIFIED": 15, "MAX_TURNS": 133, "FAILED": 1, "unknown": 1}
    assert numbers["failures"] == 1
    reward = numbers["reward"]
    assert (reward["scored"], reward["mean"], reward["interval"]) == (148, 15 / 148, "wilson")
    # Newcombe 1998, table I, method 3
    assert (reward["low"], reward["high"]) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert reward["sources"] == {"exact": 148}


def test_the_interval_of_graded_rewards():
    values = [0.0, 0.5, 1.0, 0.25, 0.25]
    rewards = Rewards()
    for value in values:
        rewards.add(value, "judge")
    half = 1.959964 * stdlib.stdev(values) / len(values) ** 0.5
    mean = stdlib.mean(values)
    assert rewards.method == "normal"
    assert rewards.mean == pytest.approx(mean)
    assert rewards.interval == pytest.approx((mean - half, mean + half))


def test_one_graded_reward_has_no_interval():
    reward = numbers_of(trajectory(reward=0.5, reward_source="judge"))["reward"]
    assert (reward["mean"], reward["low"], reward["high"], reward["interval"]) == (0.5, None, None, None)


def test_turns():
    lengths = [0, 1, 1, 2, 3, 10]
    numbers = numbers_of(*(trajectory(turns=tuple(Turn() for _ in range(length))) for length in lengths))
    assert numbers["turns"] == {"mean": stdlib.mean(lengths), "median": 1.5, "max": 10}


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1))
def test_the_median_of_turns(lengths: list[int]):
    numbers = numbers_of(*(trajectory(turns=tuple(Turn() for _ in range(length))) for length in lengths))
    assert numbers["turns"]["median"] == stdlib.median(lengths)


def test_tools():
    bad = (result(status="error", seconds=1.0), result(status="timeout", seconds=10.0))
    good = (result(seconds=2.0), result("wikipedia", cached=True))
    numbers = numbers_of(trajectory(turns=(Turn(observations=bad), Turn(observations=good))))
    whole, python, wikipedia = numbers["tool_calls"], numbers["tools"]["python"], numbers["tools"]["wikipedia"]
    assert (whole["calls"], whole["errors"], whole["timeouts"], whole["error_rate"]) == (4, 1, 1, 0.5)
    assert whole["cached"] == 1
    assert (python["share"], python["error_rate"]) == (0.75, 2 / 3)
    assert python["seconds"]["sum"] == 13.0
    assert (wikipedia["share"], wikipedia["error_rate"]) == (0.25, 0)
    assert wikipedia["seconds"]["of"] == 0, "an answer from the cache says nothing of how long the tool takes"


def test_outputs_that_could_not_be_used():
    faulty = Turn(faults=(Fault(module="planner", message="no plan"),))
    calls = (make_call("planner", 0), make_call("planner", 1), make_call("planner", 2), make_call("executor", 2))
    numbers = numbers_of(trajectory(turns=(faulty, Turn(), Turn()), calls=calls))["unusable_outputs"]
    assert numbers["planner"] == {"faults": 1, "rate": 1 / 3}
    assert numbers["executor"] == {"faults": 0, "rate": 0}
    assert numbers["verifier"] == {"faults": 0, "rate": None}, "no call of the verifier is recorded"


def test_what_is_unknown_counts_for_nothing():
    told = make_call("planner", -1, usage=Usage(prompt=100, cached=40, completion=10), seconds=2.0, model="m")
    half = make_call("planner", -1, usage=Usage(prompt=50), seconds=4.0, first_token_seconds=0.5, model="m")
    silent = make_call("planner", -1, seconds=None, model="other")
    prices = Prices({"m": Price(prompt=1, completion=4)})
    planner = numbers_of(trajectory(calls=(told, half, silent)), prices=prices)["roles"]["planner"]
    assert planner["calls"] == 3
    assert planner["prompt_tokens"] == {"sum": 150, "of": 2}
    assert planner["cached_tokens"] == {"sum": 40, "of": 1}
    assert planner["completion_tokens"] == {"sum": 10, "of": 1}
    assert planner["seconds"] == {"sum": 6.0, "mean": 3.0, "p50": 3.0, "p95": pytest.approx(3.9), "of": 2}
    assert planner["first_token_seconds"] == {"sum": 0.5, "mean": 0.5, "p50": 0.5, "p95": 0.5, "of": 1}
    assert planner["dollars"] == {"sum": pytest.approx(140 / 1e6), "of": 1}


def test_without_any_usage_sums_are_unknown_and_not_0():
    calls = numbers_of(trajectory(calls=(make_call("planner", -1, seconds=None),)))["calls"]
    assert calls["calls"] == 1
    for name in ("prompt_tokens", "cached_tokens", "completion_tokens", "seconds", "dollars"):
        assert (calls[name]["sum"], calls[name]["of"]) == (None, 0)


def test_a_fork_does_not_count_again_what_it_took_over():
    kept = Turn(observations=(result(),), faults=(Fault(module="verifier", message="m"),))
    usage = Usage(prompt=1, cached=0, completion=1)
    calls = [make_call("analyzer", -1, usage=usage)]
    calls += [make_call(role, turn, usage=usage) for turn in (0, 1) for role in ("planner", "executor")]
    calls += [make_call("generator", -1, usage=usage)]
    fork = trajectory(parent="p", parent_turns=1, turns=(kept, Turn(observations=(result(),))), calls=tuple(calls))
    numbers = numbers_of(fork)
    assert {role: totals["calls"] for role, totals in numbers["roles"].items()} == {
        "planner": 1,
        "executor": 1,
        "generator": 1,
    }
    assert numbers["tool_calls"]["calls"] == 1
    assert numbers["unusable_outputs"]["verifier"]["faults"] == 0
    assert numbers["turns"]["max"] == 2


@pytest.mark.parametrize(
    ("by", "found", "names"),
    [
        ("policy", planned_by("planner@v2", "planner@v2"), ["planner@v2"]),
        ("policy", planned_by("planner@v10", "planner@v2"), ["planner@v2 + planner@v10"]),
        ("policy", planned_by(None), [None]),
        ("policy", trajectory(), [None]),
        ("dataset", trajectory(dataset="gaia"), ["gaia"]),
        ("source", trajectory(), [None]),
        ("stop", trajectory(), ["VERIFIED"]),
        ("tool", trajectory(turns=(Turn(observations=(result("a"), result("b"), result("a"))),)), ["a", "b"]),
        ("tool", trajectory(), ["(no tool)"]),
        ("none", trajectory(), ["all"]),
    ],
)
def test_groups(by: By, found: Trajectory, names: list[str | None]):
    assert list(group_names(found, by)) == names


def test_groups_are_in_the_order_of_their_numbers_and_the_unknown_comes_last():
    grouped = GroupedStatistics("policy", NO_PRICES)
    for policy in (None, "planner@v10", "planner@v9", "base"):
        grouped.add(planned_by(policy))
    assert [name for name, _ in grouped.groups()] == ["base", "planner@v9", "planner@v10", None]
    assert [group["trajectories"] for group in grouped.as_json()["groups"]] == [1, 1, 1, 1]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(trajectories(), max_size=3), st.sampled_from(["policy", "dataset", "source", "stop", "tool", "none"]))
def test_any_trajectories_have_numbers_that_json_holds(found: list[Trajectory], by: By):
    grouped = GroupedStatistics(by, NO_PRICES)
    for one in found:
        grouped.add(one)
    text = json.dumps(grouped.as_json(), allow_nan=False)
    if by != "tool":
        assert sum(group["trajectories"] for group in json.loads(text)["groups"]) == len(found)


def test_percentiles_are_exact_while_there_is_room():
    rng = random.Random(1)
    values = [rng.expovariate(1) for _ in range(ROOM)]
    spread = Spread()
    for value in values:
        spread.add(value)
    assert spread.percentiles(5, 50, 95) == pytest.approx(np.percentile(values, [5, 50, 95]).tolist(), rel=1e-12)


def test_percentiles_of_many_are_those_of_a_fair_sample():
    """Numbers that rise: a sample that preferred the first or the last would show it."""
    spread, many = Spread(), 20 * ROOM
    for value in range(many):
        spread.add(value)
    median, p95 = spread.percentiles(50, 95)
    # five standard errors of a percentile's rank in a sample of 10,000: 2.5 % at the median, 1.1 % at p95
    assert median == pytest.approx(many * 0.50, abs=many * 0.025)
    assert p95 == pytest.approx(many * 0.95, abs=many * 0.011)
    assert (spread.count, spread.sum) == (many, many * (many - 1) / 2)


def test_memory_does_not_grow_with_the_trajectories():
    turn = Turn(observations=tuple(result(seconds=1.0) for _ in range(10)))
    template = trajectory(turns=(turn,), calls=tuple(make_call("planner", 0, seconds=1.0) for _ in range(10)))
    grouped = GroupedStatistics("none", NO_PRICES)

    def add(count: int) -> int:
        for _ in range(count):
            grouped.add(template)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        full = add(ROOM // 10 + 100)  # by now every reservoir is full
        assert add(1_000) - full < 20_000
    finally:
        tracemalloc.stop()


def test_kept_turns_without_a_parent_are_counted_here_in_calls_and_in_tools() -> None:
    turn = Turn(observations=(result(),))
    one = trajectory(parent_turns=1, turns=(turn,), calls=())
    assert numbers_of(one)["tool_calls"]["calls"] == 1
