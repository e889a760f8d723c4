"""The fold of events into turns."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from graph.records import Command, Fault, ModelCall, Observation, Plan, Turn, Verdict
from graph.state import append_calls, fold_turns, latest

OPENING = st.one_of(
    st.builds(Plan, sub_goal=st.text(max_size=5), tool=st.just("note")),
    st.builds(Fault, module=st.just("planner"), message=st.text(max_size=5)),
)
FOLLOWING = st.one_of(
    st.builds(Command, tool=st.just("note"), calls=st.just(({"a": 1},))),
    st.builds(
        Observation, tool=st.just("note"), arguments=st.just({}), status=st.just("ok"), content=st.text(max_size=5)
    ),
    st.builds(Verdict, stop=st.booleans()),
    st.builds(Fault, module=st.sampled_from(["executor", "verifier"]), message=st.text(max_size=5)),
)
EVENTS = st.tuples(OPENING, st.lists(OPENING | FOLLOWING, max_size=12)).map(lambda pair: [pair[0], *pair[1]])


@given(EVENTS, st.data())
def test_the_fold_does_not_depend_on_batches(events, data):
    """LangGraph replays writes in other batches than they were made in."""
    whole = fold_turns([], [events])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(events)), max_size=4)) | {0, len(events)})
    writes = [events[a:b] for a, b in itertools.pairwise(cuts)]
    split = data.draw(st.integers(0, len(writes)))
    assert fold_turns(fold_turns([], writes[:split]), writes[split:]) == whole


@given(EVENTS)
def test_no_event_is_lost_and_none_is_changed(events):
    turns = fold_turns([], [events])
    assert len(turns) == sum(isinstance(e, Plan) or (isinstance(e, Fault) and e.module == "planner") for e in events)
    assert [e for t in turns for e in t.observations] == [e for e in events if isinstance(e, Observation)]
    assert [e for t in turns for e in t.faults] == [e for e in events if isinstance(e, Fault)]


def test_the_fold_leaves_what_it_was_given():
    turns = [Turn(plan=Plan(sub_goal="a", tool="note"))]
    folded = fold_turns(turns, [[Verdict(stop=True)]])
    assert turns[0].verdict is None
    assert folded[0].verdict == Verdict(stop=True)


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=6), st.integers(0, 6))
def test_calls_are_appended_in_order(batches, split):
    writes = [[ModelCall(role="planner", turn=n, model="m", prompt_hash="", text="") for n in b] for b in batches]
    whole = append_calls([], writes)
    assert append_calls(append_calls([], writes[:split]), writes[split:]) == whole
    assert [call.turn for call in whole] == [n for batch in batches for n in batch]


def test_the_latest_write_wins():
    assert latest([], [1, 2, 3]) == 3
