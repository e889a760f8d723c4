"""Reads the messages of a chat log into questions with their answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from graph.traces.foreign.record import LeftOut, UnreadableRecordError
from graph.traces.foreign.values import first_of, text_of, unix_time

Speaker = Literal["user", "assistant", "system", "tool"]

_SPEAKERS: dict[str, Speaker] = {
    **dict.fromkeys(("user", "human", "prompter"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "model", "ai"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function", "observation", "function_call", "tool_call", "function_response"), "tool"),
}
TIMES = ("created", "created_at", "create_time", "timestamp", "time", "date")
"""Names under which logs keep a time."""


@dataclass
class Asked:
    """A question of a conversation and its answer."""

    question: str
    answer: str
    created: float | None
    """When the question was asked."""


def are_messages(value: Any) -> bool:
    """Whether a JSON value is a list of messages."""
    return isinstance(value, list) and bool(value) and all(_is_message(item) for item in value)


def speaker_of(message: Any) -> Speaker | None:
    """Return who speaks in a message; None where that is not known."""
    role = first_of(message, ("role", "from")) if isinstance(message, Mapping) else None
    return _SPEAKERS.get(role.strip().lower()) if isinstance(role, str) else None


def read_messages(messages: Sequence[Any], left_out: LeftOut) -> list[Asked]:
    """Return the questions that were answered, in order.

    Messages of a user that follow each other are one question. Of several messages of the assistant the last is the
    answer: those before it announce what tools are asked for.

    Raises:
        UnreadableRecordError: an item is no message.
    """
    found: list[Asked] = []
    for number, message in enumerate(messages, 1):
        if not _is_message(message):
            raise UnreadableRecordError(f"its message {number} has no role with a content.")
        speaker = speaker_of(message)
        text = _text(first_of(message, ("content", "value")), left_out)
        if speaker not in {"user", "assistant"}:
            left_out[f"{speaker or 'unknown'} message"] += 1
        elif text is None:
            left_out["message without text"] += 1
        elif speaker == "user":
            _ask(found, text, unix_time(first_of(message, TIMES)))
        elif found:
            found[-1].answer = text
        else:
            left_out["answer without a question"] += 1
    if found and not found[-1].answer:
        found.pop()
        left_out["question without an answer"] += 1
    return found


def _ask(found: list[Asked], text: str, created: float | None) -> None:
    if found and not found[-1].answer:
        found[-1].question += f"\n\n{text}"
    else:
        found.append(Asked(text, "", created))


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and (
        (isinstance(item.get("role"), str) and bool({"content", "tool_calls"} & item.keys()))
        or (isinstance(item.get("from"), str) and "value" in item)
    )


def _text(content: Any, left_out: LeftOut) -> str | None:
    """Return a message's text: a string, or the text parts of a list."""
    if not isinstance(content, list):
        return text_of(content)
    texts = [text_of(part.get("text")) if isinstance(part, Mapping) else None for part in content]
    if missing := texts.count(None):
        left_out["part of a message that is no text"] += missing
    return "\n".join(text for text in texts if text is not None) or None
