"""Reads chat logs: records of a question and its answer, or of a conversation's messages."""

from collections.abc import Iterator, Mapping
from typing import Any

from graph.feedback import HUMAN
from graph.records import Exchange
from graph.trace import Trajectory
from graph.traces.foreign.chat_messages import TIMES, Asked, are_messages, read_messages, speaker_of
from graph.traces.foreign.record import LeftOut, UnreadableRecordError, mint, origin_tags
from graph.traces.foreign.values import first_of, text_of, texts_of, unix_time

_MESSAGES = ("messages", "conversations", "conversation")
_QUESTIONS = ("question", "prompt")
_ANSWERS = ("response", "completion", "answer")
"""`answer` comes last: beside a response it is a reference as often as not."""
_REFERENCES = ("reference", "references", "ground_truth", "groundtruth", "gold")
_IDS = ("id", "uuid")
_CONVERSATIONS = ("conversation_id", "thread_id", "session_id", "chat_id")
_VERDICTS = ("thumb", "thumbs", "label", "rating", "feedback")
_RATING_CHARS = 20
_GOOD = frozenset({"good", "up", "thumbs_up", "positive", "like", "liked", "+1"})
_BAD = frozenset({"bad", "down", "thumbs_down", "negative", "dislike", "disliked", "-1"})


def is_chat(value: Any) -> bool:
    """Whether a JSON value has the shape of a chat log's record."""
    if not isinstance(value, Mapping):
        return are_messages(value)
    if any(isinstance(value.get(name), list) for name in _MESSAGES):
        return True
    return first_of(value, _QUESTIONS) is not None and first_of(value, _ANSWERS) is not None


def read_chat(value: Any, left_out: LeftOut) -> Iterator[Trajectory]:
    """Yield a trajectory for each question of a record that was answered, with the earlier ones as its history.

    What the record says of an answer (a reference, a verdict) holds for its last one.

    Raises:
        UnreadableRecordError: it holds none.
    """
    record: Mapping[str, Any] = value if isinstance(value, Mapping) else {"messages": value}
    asked = _asked(record, left_out)
    if not asked:
        raise UnreadableRecordError("it holds no question with an answer.")
    conversation = _conversation(record, asked)
    origin = origin_tags(first_of(record, _IDS))
    created = unix_time(first_of(record, TIMES))
    history: tuple[Exchange, ...] = ()
    for number, one in enumerate(asked, 1):
        when = one.created if one.created is not None else created
        earlier = [exchange.model_dump() for exchange in history]
        trajectory = Trajectory(
            id=mint("chat", [origin, when, earlier, one.question, one.answer]),
            source="import",
            conversation=conversation,
            tags=origin,
            question=one.question,
            history=history,
            answer=one.answer,
            created=when,
        )
        yield _judged(trajectory, record) if number == len(asked) else trajectory
        history = (*history, Exchange(question=one.question, answer=one.answer))


def _asked(record: Mapping[str, Any], left_out: LeftOut) -> list[Asked]:
    messages = next((record[name] for name in _MESSAGES if isinstance(record.get(name), list)), None)
    question, answer = first_of(record, _QUESTIONS), first_of(record, _ANSWERS)
    if messages is None:
        messages = question if are_messages(question) else [{"role": "user", "content": text_of(question)}]
    if answer is None or not messages or speaker_of(messages[-1]) != "user":
        return read_messages(messages, left_out)
    later = answer if are_messages(answer) else [{"role": "assistant", "content": text_of(answer)}]
    return read_messages([*messages, *later], left_out)


def _conversation(record: Mapping[str, Any], asked: list[Asked]) -> str | None:
    """Return the conversation's id: of the name that the record has for it, else of all that was said."""
    if (name := text_of(first_of(record, _CONVERSATIONS))) is not None:
        return mint("conversation", name)
    if len(asked) == 1:
        return None
    origin = text_of(first_of(record, _IDS))
    return mint("conversation", [[one.question, one.answer] for one in asked] if origin is None else [origin])


def _judged(trajectory: Trajectory, record: Mapping[str, Any]) -> Trajectory:
    """Return the trajectory with its reference, and with a person's verdict as its reward.

    The verdict becomes no feedback: that has a time, which logs do not have. A rating on a scale that the file does not
    name becomes a tag.
    """
    update: dict[str, Any] = {"reference": texts_of(first_of(record, _REFERENCES))}
    verdict = next((good for name in _VERDICTS if (good := _is_good(record.get(name))) is not None), None)
    if verdict is not None:
        update |= {"reward": float(verdict), "reward_source": HUMAN}
    rating = record.get("rating")
    if isinstance(rating, int | float) and not isinstance(rating, bool) and (text := text_of(rating)):
        update["tags"] = (*trajectory.tags, f"rating:{text[:_RATING_CHARS]}")
    return trajectory.model_copy(update=update)


def _is_good(value: Any) -> bool | None:
    """Return what True, False and the words for a thumb say; None for anything else, such as a class or a number."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower().replace(" ", "_") if isinstance(value, str) else ""
    return True if word in _GOOD else False if word in _BAD else None
