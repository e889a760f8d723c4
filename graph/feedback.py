"""What a person says of a run: kept beside it, and exported with it as its reward."""

from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from graph.records import UNGRADED, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graph.trace import Trajectory

HUMAN = "human"
"""The source of a reward that a person gave."""
_REWARDS = {"good": 1.0, "bad": 0.0}


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
