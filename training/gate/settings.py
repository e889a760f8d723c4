"""What the gate is asked to hold traces against."""

from pydantic import Field

from graph.records import Record


class GateSettings(Record):
    """How strict the gate is."""

    policy: str | None = None
    """The version about to be trained, such as `planner@v3`; `base` or a model's name for the model as it is. None: the
    newest among the traces."""
    max_staleness: int = Field(0, ge=0)
    """How many versions behind it a call's policy may be."""
    temperature: float | None = Field(None, gt=0, allow_inf_nan=False)
    """What the planner is trained at; None: what most usable trajectories were sampled at."""
    success: float = Field(1.0, allow_inf_nan=False)
    """The reward from which on a trajectory is a demonstration."""
    judge: bool = False
    """Whether a judge can score answers, so that a question can be rolled out again without a reference."""
