"""The `[traces]` table of agentflow.toml. Free of heavy imports, as the configuration reads it at every start."""

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from graph.traces.patterns import own_pattern
from graph.traces.telemetry.address import traces_address


class TracesSettings(BaseModel):
    """What happens to a trace beside its being stored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    otlp_endpoint: str | None = None
    """Address of an OpenTelemetry collector that takes OTLP over HTTP, such as http://127.0.0.1:4318: each run is sent
    to it when it ends. None: nothing is sent."""
    redact: dict[str, str] = Field(default_factory=dict)
    """Regular expressions by name: what they match is replaced by `[NAME]` in exports with `--redact`."""

    @field_validator("otlp_endpoint")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                traces_address(value)
        except ValueError as error:
            # The message of this type does not repeat the input, which may hold a key.
            raise PydanticCustomError("hidden_input", "{why}", {"why": str(error)}) from None
        return value

    @field_validator("redact")
    @classmethod
    def _can_be_used(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            for name, regex in value.items():
                own_pattern(name, regex)
        except ValueError as error:
            raise PydanticCustomError("hidden_input", "{why}", {"why": str(error)}) from None
        return value
