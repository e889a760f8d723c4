"""Chat logs in the shapes that people have them in."""

import json
from typing import Any

import pytest

from graph.records import Exchange
from graph.trace import Trajectory
from graph.traces.foreign.chat_log import is_chat, read_chat
from graph.traces.foreign.record import LeftOut, UnreadableRecordError

USER, BOT = {"role": "user", "content": "q1"}, {"role": "assistant", "content": "a1"}
MORE = [{"role": "user", "content": "q2"}, {"role": "assistant", "content": "a2"}]


def read(record: Any) -> list[Trajectory]:
    assert is_chat(record)
    return list(read_chat(record, LeftOut()))


def left_out_of(messages: list[Any]) -> dict[str, int]:
    left_out = LeftOut()
    list(read_chat({"messages": messages}, left_out))
    return dict(left_out)


@pytest.mark.parametrize(
    "record",
    [
        {"question": "q1", "answer": "a1"},
        {"prompt": "q1", "response": "a1"},
        {"prompt": "q1", "completion": "a1", "answer": "perhaps a reference"},
        {"messages": [USER, BOT]},
        {"messages": [USER], "response": "a1"},
        {"prompt": [USER], "completion": [BOT]},
        {"prompt": [USER], "completion": "a1"},
        {"prompt": "q1", "completion": [BOT]},
        {"conversations": [{"from": "human", "value": "q1"}, {"from": "gpt", "value": "a1"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "q1"}]}, BOT]},
        [USER, BOT],
    ],
)
def test_one_question(record: Any):
    (run,) = read(record)
    assert (run.question, run.answer, run.source, run.history) == ("q1", "a1", "import", ())
    unknown = (run.conversation, run.group, run.reference, run.reward, run.stop, run.created, run.solution, run.seconds)
    assert unknown == (None,) * 8
    assert (run.turns, run.calls, run.tags, run.feedback) == ((), (), (), ())


def test_a_conversation_is_a_trajectory_a_question():
    first, second = read({"id": "x", "messages": [USER, BOT, *MORE], "ground_truth": ["a2", 2], "thumb": "up"})
    assert (first.history, second.history) == ((), (Exchange(question="q1", answer="a1"),))
    assert first.conversation == second.conversation is not None
    assert first.tags == second.tags == ("origin:x",)
    assert (first.reference, first.reward) == (None, None)
    assert (second.reference, second.reward, second.reward_source) == (("a2", "2"), 1.0, "human")


def test_a_conversation_that_went_on_adds_only_what_is_new():
    before = [run.id for run in read({"id": "x", "messages": [USER, BOT]})]
    after = [run.id for run in read({"id": "x", "messages": [USER, BOT, *MORE]})]
    assert after[:1] == before
    assert len(set(after)) == 2


def test_rows_of_one_conversation_belong_together():
    one, two, other = (
        read({"question": question, "answer": "a", "conversation_id": conversation})[0]
        for question, conversation in (("q1", 7), ("q2", 7), ("q3", 8))
    )
    assert one.conversation == two.conversation != other.conversation


def test_what_is_left_out_is_counted():
    tools = [{"role": "assistant", "content": None, "tool_calls": []}, {"role": "tool", "content": "r"}]
    assert left_out_of([{"role": "system", "content": "s"}, USER, *tools, BOT, {"role": "user", "content": "q2"}]) == {
        "system message": 1,
        "message without text": 1,
        "tool message": 1,
        "question without an answer": 1,
    }
    picture = {"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "what is this?"}]}
    assert left_out_of([BOT, picture, BOT, {"role": "oracle", "content": "x"}]) == {
        "answer without a question": 1,
        "part of a message that is no text": 1,
        "unknown message": 1,
    }


def test_messages_that_follow_each_other():
    (run,) = read([USER, {"role": "user", "content": "please"}, {"role": "assistant", "content": "I look it up."}, BOT])
    assert (run.question, run.answer) == ("q1\n\nplease", "a1")


@pytest.mark.parametrize(
    ("fields", "reward"),
    [
        ({"label": True}, 1.0),
        ({"label": False}, 0.0),
        ({"thumb": "thumbs down"}, 0.0),
        ({"rating": "Good"}, 1.0),
        ({"feedback": "dislike"}, 0.0),
        ({"thumb": None, "label": True}, 1.0),
        ({"label": 1}, None),
        ({"label": "helpful"}, None),
        ({"rating": 5}, None),
        ({"feedback": "It was not bad"}, None),
    ],
)
def test_verdicts(fields: dict[str, Any], reward: float | None):
    (run,) = read({"prompt": "q1", "completion": "a1", **fields})
    assert run.reward == reward
    assert run.reward_source == (None if reward is None else "human")
    assert run.feedback == ()


def test_a_rating_is_a_tag():
    (run,) = read({"question": "q", "answer": "a", "rating": 4.5, "id": "a\n\x1b[31m\u202e" + "b" * 200})
    assert run.tags == (f"origin:a [31m {'b' * 73}", "rating:4.5")


@pytest.mark.parametrize(
    ("given", "time"),
    [
        (1764547200, 1764547200.0),
        (1764547200123, 1764547200.123),
        ("2025-12-01T00:00:00Z", 1764547200.0),
        ("2025-12-01", 1764547200.0),
        ("2025-12-01T01:00:00+01:00", 1764547200.0),
        ("yesterday", None),
        (0, None),
        (-5, None),
        (True, None),
        (1e300, None),
        (10**400, None),
        ("9999999-01-01", None),
        ([1], None),
    ],
)
def test_times(given: Any, time: float | None):
    (run,) = read({"question": "q", "answer": "a", "created_at": given})
    assert run.created == time


def test_a_messages_own_time_goes_before_the_conversations():
    first, second = read({"created": 5, "messages": [{**USER, "timestamp": 7}, BOT, *MORE]})
    assert (first.created, second.created) == (7.0, 5.0)


def test_ids():
    record = {"question": "q", "answer": "a", "id": 1, "created": 5}
    run = read(record)[0].id
    assert read({**record, "thumb": "up", "reference": "a"})[0].id == run, "a verdict that came later is the same run"
    for change in ({"id": 2}, {"created": 6}, {"answer": "b"}, {"question": "r"}):
        assert read(record | change)[0].id != run


@pytest.mark.parametrize(
    "record",
    [
        {"messages": []},
        {"messages": [USER]},
        {"messages": [BOT]},
        {"messages": [USER, BOT, "x"]},
        {"messages": [USER, {"role": "assistant"}]},
        {"question": "", "answer": "a"},
        {"question": "q", "answer": ["a"]},
        {"question": {"a": 1}, "answer": "a"},
    ],
)
def test_no_question_with_an_answer(record: dict[str, Any]):
    assert is_chat(record)
    with pytest.raises(UnreadableRecordError):
        list(read_chat(record, LeftOut()))


@pytest.mark.parametrize(
    "value", [None, 1, "q", [], [1], {}, {"question": "q"}, {"answer": "a"}, {"text": "q"}, [USER, 1]]
)
def test_no_chat(value: Any):
    assert not is_chat(value)


def test_text_that_no_store_takes():
    (run,) = read({"question": "a\x00b\ud83d", "answer": "\ud83d\ude00"})
    assert (run.question, run.answer) == ("ab\ufffd", "\U0001f600")
    json.loads(run.model_dump_json())
