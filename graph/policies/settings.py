"""The `[policies]` table of agentflow.toml. Free of heavy imports, as the configuration reads it at every start."""

import os

from pydantic import BaseModel, ConfigDict, Field, field_validator

PROMOTED = "promoted"
BASE = "base"


class PoliciesSettings(BaseModel):
    """Which version of the planner answers, and where versions are kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    directory: str = Field(".agentflow/policies", min_length=1)
    """Directory of the registry. A model server must see it under the same absolute path."""
    use: str = Field(PROMOTED, min_length=1)
    """`promoted`: the promoted version, and the next one as soon as it is promoted. `base`: the planner's model as it
    is. Otherwise a version, such as `planner@v3`."""

    @field_validator("directory")
    @classmethod
    def _at_home(cls, value: str) -> str:
        return os.path.expanduser(value)
