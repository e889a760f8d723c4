"""The configuration: one agentflow.toml, overridden by AGENTFLOW_* variables, overridden by `--set`.

Keys are never part of it: a role names the environment variable that holds its key.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from graph.engine.settings import LocalSettings
from graph.errors import ConfigError
from graph.policies.settings import PoliciesSettings
from graph.secret_names import address_holds_secret, secret_within
from graph.serve_settings import ServeSettings
from graph.tools.settings import ToolsSettings
from graph.traces.patterns import without_keys
from graph.traces.price import Price
from graph.traces.settings import TracesSettings
from graph.variables import PREFIX, check_variables

Role = Literal["analyzer", "planner", "executor", "verifier", "generator", "generate"]
ROLES: tuple[Role, ...] = ("analyzer", "planner", "executor", "verifier", "generator", "generate")
"""The five modules and the `generate` tool, each with a model of its own."""

_HIDDEN = "hidden_input"
"""Type of an error whose input may be a key, and is not repeated."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class ModelConfig(_Table):
    """The model of one role. What a role leaves out it takes from `[models.default]`."""

    model: str = "local"
    """`local`: the embedded engine. With `base_url`, the name that the server knows the model by. Otherwise
    `provider:model` for any provider that LangChain's `init_chat_model` knows."""
    base_url: str | None = None
    """Address of an OpenAI-compatible server, ending in /v1."""
    api_key_env: str | None = None
    """Environment variable that holds the key; None for the provider's own default, or for a server without keys."""
    temperature: float = Field(0.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: int = Field(512, ge=1)
    structured: Literal["auto", "json_schema", "off"] = "auto"
    """`json_schema` constrains decoding to what the role must return, `off` reads free text leniently. `auto`
    constrains, except for a planner whose server returns token ids (vLLM): its traces can then be trained on; and
    except for a provider that cannot be held to a schema, where `json_schema` is an error."""
    timeout: float = Field(120.0, gt=0)
    """Seconds that the server may be silent; a call as a whole never takes more than the time left to the run."""
    max_retries: int = Field(3, ge=0, le=20)
    """Further attempts after a timeout, a lost connection, or status 408, 409, 429 or 5xx."""
    seed: int | None = None
    """Sent where the provider takes one."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body, as the server takes them; no keys, as they are stored with every run."""

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_]\w*", value, re.ASCII):
            raise PydanticCustomError(_HIDDEN, "it takes the name of an environment variable that holds the key")
        return value

    @field_validator("base_url")
    @classmethod
    def _holds_no_key(cls, value: str | None) -> str | None:
        try:
            holds = value is not None and address_holds_secret(value)
        except ValueError as error:
            raise PydanticCustomError(_HIDDEN, "it is no address") from error
        if holds:
            raise PydanticCustomError(_HIDDEN, "an address holds no key: name its variable in api_key_env")
        return value

    @field_validator("extra")
    @classmethod
    def _names_no_key(cls, value: dict[str, Any]) -> dict[str, Any]:
        if name := secret_within(value):
            raise PydanticCustomError(_HIDDEN, "{name} holds a key: name its variable in api_key_env", {"name": name})
        return value

    @property
    def embedded(self) -> bool:
        """Whether the embedded engine answers."""
        return self.model == "local" and self.base_url is None


class ModelsConfig(_Table):
    """Models by role. A table may hold any of ModelConfig's fields."""

    default: ModelConfig = ModelConfig()
    analyzer: ModelConfig = ModelConfig(max_tokens=160)
    planner: ModelConfig = ModelConfig(temperature=0.7)
    executor: ModelConfig = ModelConfig()
    verifier: ModelConfig = ModelConfig(max_tokens=200)
    generator: ModelConfig = ModelConfig()
    generate: ModelConfig = ModelConfig()

    def of(self, role: Role) -> ModelConfig:
        """Return the settings in force for `role`: its own table, then `default`, then the role's defaults."""
        field = type(self).model_fields[role].default
        merged = field.model_dump(include=field.model_fields_set)
        merged |= self.default.model_dump(include=self.default.model_fields_set)
        if role in self.model_fields_set:
            own: ModelConfig = getattr(self, role)
            merged |= own.model_dump(include=own.model_fields_set)
        return ModelConfig.model_validate(merged)


class Budgets(_Table):
    """When a run has to come to its answer. The generator still answers after a budget has ended."""

    max_turns: int = Field(10, ge=0, le=1000)
    """0: the generator answers directly, without tools."""
    max_seconds: float = Field(300.0, gt=0)
    """For the turns; the generator's call may follow within its own timeout."""
    max_tokens: int | None = Field(None, ge=1)
    """Prompt and completion tokens of all calls together, as the servers count them; None for no limit."""
    memory_chars: int | None = Field(None, ge=500)
    """Characters of memory in a prompt; None for what the largest context of planner, verifier and generator allows, at
    most 12,000. A call whose model has less room shortens it further."""


class StorageConfig(_Table):
    """Where runs are kept."""

    url: str = ".agentflow/runs.db"
    """A file for SQLite, or `postgresql://…`."""

    @field_validator("url")
    @classmethod
    def _at_home(cls, value: str) -> str:
        return os.path.expanduser(value)


class FlowConfig(BaseSettings):
    """Everything that agentflow.toml may say."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        validate_default=True,
        hide_input_in_errors=True,  # a traceback shows no more than our own sentence
    )

    models: ModelsConfig = ModelsConfig()
    budgets: Budgets = Budgets()
    tools: ToolsSettings = ToolsSettings()
    storage: StorageConfig = StorageConfig()
    local: LocalSettings = LocalSettings()
    policies: PoliciesSettings = PoliciesSettings()
    serve: ServeSettings = ServeSettings()
    traces: TracesSettings = TracesSettings()
    prices: dict[str, Price] = Field(default_factory=dict)
    """Prices by the name that calls record of their model."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only what `load_config` merged: it knows where each value came from."""
        return (init_settings,)


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration and where each of its values came from."""

    config: FlowConfig
    sources: Mapping[str, str]
    """`--set`, `environment` or the file's name by dotted path; what is missing is a default."""


def load_config(path: Path | None = None, overrides: Sequence[str] = ()) -> LoadedConfig:
    """Merge defaults, file, environment and `key.path=value` overrides, the later over the earlier.

    Args:
        path: the file; None for `agentflow.toml` in the working directory if it is there.
        overrides: `models.planner.temperature=0.5`; values as TOML writes them, else text.

    Raises:
        ConfigError: the file cannot be read or parsed, a setting is unknown or its value does not fit.
    """
    file = path or Path("agentflow.toml")
    layers: list[tuple[str, dict[str, Any]]] = []
    if path or file.is_file():
        layers.append((file.name, _read_toml(file)))
    environment = EnvSettingsSource(FlowConfig)
    try:
        layers.append(("environment", environment()))
    except ValueError as error:
        raise ConfigError(f"An AGENTFLOW_ variable cannot be read: {error}.") from error
    layers += [("--set", _parse_override(override)) for override in overrides]
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, layer in layers:
        _merge(merged, layer)
        sources |= dict.fromkeys((".".join(key) for key, _ in _leaves(layer)), source)
    try:
        config = FlowConfig(**merged)
    except ValidationError as error:
        raise ConfigError(_sentence(error, sources)) from error
    keys = {config.models.of(role).api_key_env for role in ROLES} | {config.serve.api_key_env}
    check_variables([path for path, _ in leaves(config)], {key for key in keys if key})
    return LoadedConfig(config, sources)


def leaves(config: BaseModel) -> Iterator[tuple[str, Any]]:
    """Yield every setting by dotted path."""
    for key, value in _leaves(config.model_dump(mode="json")):
        yield ".".join(key), value


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise ConfigError(f"There is no configuration file {file}: create it, or leave out --config.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}.") from error


def _parse_override(override: str) -> dict[str, Any]:
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set {override!r} must look like models.planner.temperature=0.5.")
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    for part in reversed(parts):
        value = {part: value}
    return value if isinstance(value, dict) else {}


def _merge(into: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _leaves(layer: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in layer.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*prefix, key))
        else:
            yield (*prefix, key), value


def _sentence(error: ValidationError, sources: Mapping[str, str]) -> str:
    """Say what is wrong with the first bad setting, where it stands, and what may have been meant."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    source = next((name for path, name in sources.items() if path == key or path.startswith(key + ".")), None)
    where = {None: "", "environment": " (environment)", "--set": " (--set)"}.get(source, f" in {source}")
    if first["type"] == _HIDDEN:
        return f"The setting {key}{where} does not fit: {first['msg']}."
    if first["type"] != "extra_forbidden":
        return (
            f"The setting {key}{where} does not fit: {first['msg'].lower()}, not {without_keys(repr(first['input']))}."
        )
    model: Any = FlowConfig
    for part in first["loc"][:-1]:
        # a table of tables under names of the user's has no fields of its own
        model = model.model_fields[part].annotation if hasattr(model, "model_fields") else get_args(model)[1]
    known = list(model.model_fields)
    close = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known here are {', '.join(known)}."
    return f"There is no setting {key}{where}: {hint}"
