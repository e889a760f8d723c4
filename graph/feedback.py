"""What a person says of a run: kept beside it, and exported with it as its reward."""

import time
from typing import TYPE_CHECKING, Literal, Self

from pydantic import ValidationError, model_validator
from pydantic_core import PydanticCustomError

from graph.errors import ConfigError
from graph.plain import plain_text
from graph.records import UNGRADED, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graph.trace import Trajectory

HUMAN = "human"
"""The source of a reward that a person gave."""
_REWARDS = {"good": 1.0, "bad": 0.0}
_MOST_CHARS = 10_000


class Feedback(Record):
    """One remark. A later one adds to the earlier ones; where both say the same kind of thing, the later holds."""

    at: float
    """Unix time."""
    verdict: Literal["good", "bad"] | None = None
    answer: str | None = None
    """The right answer."""
    note: str | None = None
    author: str | None = None
    """Name of the user; None on the command line."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.verdict is None and self.answer is None and self.note is None:
            raise PydanticCustomError("empty_feedback", "feedback needs a verdict, an answer or a note")
        return self


def with_feedback(trajectory: "Trajectory", remarks: "Sequence[Feedback]") -> "Trajectory":
    """Return the trajectory as it is exported: the last verdict is its reward, the last answer its reference.

    A person's verdict replaces a scorer's. A run that failed or was cancelled keeps no reward: it is never graded.
    """
    if not remarks:
        return trajectory
    update: dict[str, object] = {"feedback": tuple(remarks)}
    verdict = next((remark.verdict for remark in reversed(remarks) if remark.verdict), None)
    if verdict and trajectory.stop not in UNGRADED:
        update |= {"reward": _REWARDS[verdict], "reward_source": HUMAN}
    answer = next((remark.answer for remark in reversed(remarks) if remark.answer is not None), None)
    if answer is not None:
        update["reference"] = (answer,)
    return trajectory.model_copy(update=update)


def new_feedback(
    *,
    verdict: Literal["good", "bad"] | None = None,
    answer: str | None = None,
    note: str | None = None,
    author: str | None = None,
) -> Feedback:
    """Return a remark made now, as the command line and the page take it.

    Raises:
        ConfigError: it says nothing, or a text of it is empty or too long.
    """
    texts = {"answer": answer, "note": note}
    for name, text in texts.items():
        if text is None:
            continue
        texts[name] = plain_text(text).strip()
        if not texts[name]:
            raise ConfigError(f"The {name} is empty: write it, or leave it out.")
        if len(text) > _MOST_CHARS:
            raise ConfigError(f"The {name} has {len(text):,} characters; at most {_MOST_CHARS:,} are kept: shorten it.")
    try:
        return Feedback(at=round(time.time(), 3), verdict=verdict, author=author, **texts)
    except ValidationError as error:
        raise ConfigError("Feedback needs a verdict, an answer or a note: give one.") from error
