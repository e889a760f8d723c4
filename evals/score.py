"""The verdict on one answer."""

from pydantic import BaseModel, ConfigDict, Field


class Score(BaseModel):
    """What a scorer says of one answer; the same object is a metric and a reward."""

    model_config = ConfigDict(frozen=True)

    value: float | None = Field(ge=0, le=1, allow_inf_nan=False)
    """1 is right, 0 is wrong; None is ungraded: the scorer cannot decide, which is neither and is counted apart."""
    answer: str
    """What was taken to be the final answer, as it was written."""
    explanation: str
    """One sentence on why."""

    @property
    def right(self) -> bool | None:
        """Whether full credit was given; None where ungraded."""
        return None if self.value is None else self.value == 1
