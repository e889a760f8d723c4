"""What fits into the context of the models: questions, and memory."""

from typing import TYPE_CHECKING

from graph.errors import ConfigError
from graph.plain import plain_text
from graph.weight import CHARS_PER_TOKEN, weight

if TYPE_CHECKING:
    from graph.models.client import RoleModel

_MIN_MEMORY_CHARS = 500
_MAX_MEMORY_CHARS = 12_000
_MAX_QUESTION_CHARS = 100_000
_MIN_ROOM = 1_000


def room_chars(context_tokens: int | None, answer_tokens: int, fixed_weight: int) -> int:
    """Return the weight that question and memory may have together in a prompt.

    Args:
        context_tokens: of the model; None when unknown.
        answer_tokens: the longest answer.
        fixed_weight: of the prompt's unchanging part.
    """
    if context_tokens is None:
        return _MAX_QUESTION_CHARS
    return max(_MIN_ROOM, int((context_tokens - answer_tokens) * CHARS_PER_TOKEN) - fixed_weight)


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


def check_answer(model: "RoleModel") -> None:
    """Check that a model's context has room for more than its answer.

    Raises:
        ConfigError: it has none.
    """
    if model.context is not None and model.config.max_tokens >= model.context:
        raise ConfigError(
            f"models.{model.role}.max_tokens is {model.config.max_tokens:,}, and the context of {model.config.model} "
            f"holds {model.context:,} tokens of prompt and answer together: set it lower."
        )
