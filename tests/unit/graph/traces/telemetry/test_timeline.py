from hypothesis import HealthCheck, given, settings

from graph.records import Observation, Turn
from graph.trace import Trajectory
from graph.traces.telemetry.timeline import Interval, timeline_of
from tests.any_trajectory import trajectories
from tests.trajectories import make_call

START = 1_700_000_000


def at(start: float, end: float) -> Interval:
    return Interval(START * 10**9 + round(start * 1e9), START * 10**9 + round(end * 1e9))


def call(role: str, turn: int, start: float | None = None, seconds: float | None = None):
    return make_call(role, turn, at=None if start is None else START + start, seconds=seconds)


def observed(seconds: float) -> Observation:
    return Observation(tool="t", arguments={}, status="ok", content="c", seconds=seconds)


def test_what_is_known_is_kept_and_tools_follow_their_executor():
    run = Trajectory(
        id="t",
        question="q",
        created=START,
        turns=(Turn(observations=(observed(3.0), observed(1.0))),),
        calls=(
            call("analyzer", -1, 1, 0.5),
            call("planner", 0, 2, 1.0),
            call("executor", 0, 4, 1.0),
            call("verifier", 0, 9, 0.5),
            call("generator", -1, 11, 2.0),
        ),
    )
    times = timeline_of(run)
    assert times.calls == (at(1, 1.5), at(2, 3), at(4, 5), at(9, 9.5), at(11, 13))
    assert times.tools == ((at(5, 8), at(5, 6)),)
    assert times.turns == (at(2, 9.5),)
    assert times.run == at(0, 13)


def test_what_has_no_time_begins_at_the_last_known_one_and_what_has_no_length_has_none():
    run = Trajectory(
        id="t",
        question="q",
        created=START,
        turns=(Turn(observations=(observed(3.0),)), Turn()),
        calls=(
            call("analyzer", -1),
            call("planner", 0, 2, 1.0),
            call("executor", 0),
            call("verifier", 0, seconds=0.5),
            call("generator", -1),
        ),
    )
    times = timeline_of(run)
    assert times.calls == (at(0, 0), at(2, 3), at(3, 3), at(6, 6.5), at(6.5, 6.5))
    assert times.tools == ((at(3, 6),), ())
    assert times.turns == (at(2, 6.5), at(6.5, 6.5))
    assert times.run == at(0, 6.5)


def test_a_run_without_its_time_begins_with_its_first_call():
    run = Trajectory(id="t", question="q", turns=(Turn(),), calls=(call("analyzer", -1), call("planner", 0, 5, 1.0)))
    assert timeline_of(run).run == at(5, 6)
    assert timeline_of(run).calls[0] == at(5, 5)


def test_a_run_that_knows_no_time_stands_at_0():
    assert timeline_of(Trajectory(id="t", question="q", seconds=9.0)).run == Interval(0, 0)
    run = Trajectory(id="t", question="q", turns=(Turn(observations=(observed(2.0),)),))
    assert timeline_of(run).run == Interval(0, 2 * 10**9)


def test_a_fork_reaches_back_to_its_parents_turns():
    run = Trajectory(id="t", question="q", created=START + 100, turns=(Turn(),), calls=(call("planner", 0, 2, 1.0),))
    assert timeline_of(run).run == at(2, 100)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trajectories())
def test_times_of_any_trajectory_are_nested_and_can_be_stored(run):
    times = timeline_of(run)
    assert [len(times.calls), len(times.turns)] == [len(run.calls), len(run.turns)]
    assert [len(tools) for tools in times.tools] == [len(turn.observations) for turn in run.turns]
    inner = [
        (times.turns[c.turn] if c.turn >= 0 else times.run, when)
        for c, when in zip(run.calls, times.calls, strict=True)
    ]
    inner += [(turn, tool) for turn, tools in zip(times.turns, times.tools, strict=True) for tool in tools]
    inner += [(times.run, turn) for turn in times.turns]
    for outer, part in inner:
        assert 0 <= outer.start <= part.start <= part.end <= outer.end < 2**63
