"""A price in agentflow.toml. Free of heavy imports, as the configuration reads it at every start."""

from pydantic import BaseModel, ConfigDict, Field


class Price(BaseModel):
    """What a model costs, in US dollars for a million tokens: `[prices."MODEL NAME"]`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    prompt: float = Field(ge=0)
    cached: float | None = Field(None, ge=0)
    """Of prompt tokens that the server did not have to compute again; None for the same as `prompt`."""
    completion: float = Field(ge=0)
