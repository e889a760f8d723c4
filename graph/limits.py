"""What fits into the context of the models: questions, and memory."""

from graph.errors import ConfigError
from graph.plain import plain_text
from graph.weight import CHARS_PER_TOKEN, weight

_MIN_MEMORY_CHARS = 500
_MAX_MEMORY_CHARS = 12_000
_MAX_QUESTION_CHARS = 100_000
_MIN_ROOM = 1_000


def room_chars(context_tokens: int | None, answer_tokens: int, fixed_weight: int) -> int:
    """Return the weight that question and memory may have together in a prompt of the smallest context.

    Args:
        context_tokens: the smallest context of the models; None when unknown.
        answer_tokens: the longest answer that any of them may give.
        fixed_weight: of the longest prompt's unchanging part.
    """
    if context_tokens is None:
        return _MAX_QUESTION_CHARS
    tokens = context_tokens - min(answer_tokens, context_tokens // 4)
    return max(_MIN_ROOM, int(tokens * CHARS_PER_TOKEN) - fixed_weight)


def memory_chars(room: int, question: str) -> int:
    """Return the budget of the rendered memory: what the question leaves of the room."""
    return min(_MAX_MEMORY_CHARS, max(_MIN_MEMORY_CHARS, room - weight(question)))


def checked_question(question: str, room: int) -> str:
    """Return the question as every store and server takes it.

    Raises:
        ConfigError: it is empty or too long.
    """
    text = plain_text(question).strip()
    if not text:
        raise ConfigError("The question is empty: write what you want to know.")
    limit = min(_MAX_QUESTION_CHARS, room // 2)
    if weight(text) > limit:
        raise ConfigError(
            f"The question has {len(text):,} characters; these models take at most {limit:,}: shorten it."
        )
    return text
