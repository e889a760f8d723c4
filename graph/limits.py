"""What fits into the context of the models: questions, and memory."""

from graph.errors import ConfigError
from graph.plain import plain_text

_MIN_MEMORY_CHARS = 500
_MAX_MEMORY_CHARS = 12_000
_MAX_QUESTION_CHARS = 100_000
_FIXED_PROMPT_TOKENS = 1_300
"""System message, tools and examples of the longest prompt, rounded up."""
_CHARS_PER_TOKEN = 2.5
"""Cautious: code and numbers take more tokens than prose."""


def room_chars(context_tokens: int | None, answer_tokens: int) -> int:
    """Return the characters that a prompt of the smallest context has for question and memory together.

    Args:
        context_tokens: the smallest context of the models; None when unknown.
        answer_tokens: the longest answer that any of them may give.
    """
    if context_tokens is None:
        return _MAX_QUESTION_CHARS
    tokens = context_tokens - min(answer_tokens, context_tokens // 4) - _FIXED_PROMPT_TOKENS
    return max(1_000, int(tokens * _CHARS_PER_TOKEN))


def memory_chars(room: int, question: str) -> int:
    """Return the budget of the rendered memory: what the question leaves of the room."""
    return min(_MAX_MEMORY_CHARS, max(_MIN_MEMORY_CHARS, room - len(question)))


def checked_question(question: str, room: int) -> str:
    """Return the question as every store and server takes it.

    Raises:
        ConfigError: it is empty or too long.
    """
    text = plain_text(question).strip()
    if not text:
        raise ConfigError("The question is empty: write what you want to know.")
    limit = min(_MAX_QUESTION_CHARS, room // 2)
    if len(text) > limit:
        raise ConfigError(
            f"The question has {len(text):,} characters; these models take at most {limit:,}: shorten it."
        )
    return text
