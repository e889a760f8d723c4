"""One question of a benchmark."""

from pydantic import BaseModel, ConfigDict, Field


class Sample(BaseModel):
    """A question with its reference answers. Its scorer is the benchmark's business."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(min_length=1)
    """Unique within its benchmark."""
    question: str = Field(min_length=1)
    answers: tuple[str, ...] = Field(min_length=1)
    """Accepted answers; each alone is right."""
    kind: str
    """The group that statistics are broken down by."""
    split: str
    """The part of the benchmark that it belongs to, such as `tune` or `held_out`."""
