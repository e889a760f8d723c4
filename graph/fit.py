"""Messages that fit into their model's context together with the longest answer.

The answer's length is never reduced: what models and tools wrote gives way, by the rules of `graph.rendering`, and the
call records the room that was left to it, so that a trace renders the same messages again.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from graph.deadline import Deadline
from graph.errors import ModelError
from graph.models.client import RoleModel
from graph.models.tokens import most_tokens, most_tokens_after
from graph.prompt import Message
from graph.weight import CHARS_PER_TOKEN, weight

LEAST_CHARS = 200
"""What is written by models and tools keeps at least this much of a prompt."""
_TRIES = 4
_CLOSE = 0.97

Render = Callable[[int | None], list[Message]]
"""Renders a call's messages: its texts as the run's setup says, or within a weight."""


class Counted(NamedTuple):
    """Messages of an earlier call, and their tokens as the server counted them."""

    messages: Sequence[Message]
    tokens: int


class Fitted(NamedTuple):
    """Messages to send."""

    messages: list[Message]
    memory_chars: int | None
    """The weight that they were rendered within; None where they fit as they were."""


async def fit(
    model: RoleModel, render: Render, deadline: Deadline, *, before: Callable[[], Counted | None] = lambda: None
) -> Fitted:
    """Render messages so that they and the model's longest answer fit into its context.

    Args:
        model: its server is asked to count where the messages may not fit.
        render: as its type says.
        deadline: cancels the counting.
        before: returns an earlier call that began alike, where there is one; it can save the counting.

    Raises:
        OutOfTimeError: the time was up.
        ModelError: not even the shortest rendering fits.
    """
    messages, limit = render(None), None
    if model.context is None:
        return Fitted(messages, None)
    room = model.context - model.config.max_tokens
    async with deadline.limit():
        tokens = await _tokens(model, messages, room, before)
        for attempt in range(_TRIES):
            if tokens <= room:
                return Fitted(messages, limit)
            # In proportion to the weight, which is nearly always right at once; in the last attempt all that can go.
            shorter = _shorter(messages, render(LEAST_CHARS), room / tokens, limit) if attempt < _TRIES - 1 else 0
            limit = max(LEAST_CHARS, shorter)
            messages = render(limit)
            tokens = await _tokens(model, messages, room)
    if tokens > room:
        raise ModelError(
            f"The {model.role}'s prompt takes {tokens:,} tokens when all that can be is left out, and its answer up to "
            f"{model.config.max_tokens:,}: more than its context of {model.context:,}; lower "
            f"models.{model.role}.max_tokens."
        )
    return Fitted(messages, limit)


async def tokens_of(model: RoleModel, messages: Sequence[Message]) -> int:
    """Return the tokens of the messages as the model's server counts them, or else a cautious estimate."""
    counted = await model.counter.count(messages) if model.counter else None
    return math.ceil(_weight(messages) / CHARS_PER_TOKEN) if counted is None else counted


async def _tokens(
    model: RoleModel, messages: Sequence[Message], room: int, before: Callable[[], Counted | None] = lambda: None
) -> int:
    """Return the tokens of the messages, or a number that they do not exceed where that is within `room`."""
    most = most_tokens(messages)
    if most > room and (earlier := before()):
        most = most_tokens_after(messages, *earlier)
    return most if most <= room else await tokens_of(model, messages)


def _shorter(messages: Sequence[Message], shortest: Sequence[Message], share: float, limit: int | None) -> int:
    """Return the weight that leaves `share` of the messages' weight: at most three quarters of `limit`."""
    fixed = _weight(shortest) - LEAST_CHARS
    wanted = int(_weight(messages) * share * _CLOSE) - fixed
    return wanted if limit is None else min(wanted, limit * 3 // 4)


def _weight(messages: Sequence[Message]) -> int:
    return sum(weight(message["content"]) for message in messages)
