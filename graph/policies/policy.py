"""A policy: one version of the planner, as an adapter or as full weights, in a directory of its own."""

import re
from typing import Literal

from pydantic import Field

from graph.errors import ConfigError
from graph.records import Record

_NAME = re.compile(r"(?P<policy>[A-Za-z0-9][A-Za-z0-9._-]{0,99})@v(?P<version>0|[1-9][0-9]{0,8})")


class Policy(Record):
    """What `policy.json` says. The directory that holds it is named like the version, `planner@v3`."""

    name: str
    """Of the line of versions, such as `planner`."""
    version: int = Field(ge=0)
    kind: Literal["adapter", "weights"]
    """A PEFT LoRA adapter, or a whole model in Hugging Face format."""
    base_model: str
    """The model that an adapter belongs to, or that weights were trained from: a directory or a name on the hub."""
    base_revision: str | None = None
    """Its revision on the hub; None where it has none, or nobody noted it."""
    parent: str | None = None
    """The version that training started from; None for the base model."""
    training_run: str | None = None
    config_hash: str | None = None
    """Of the training run's configuration."""
    metrics: dict[str, float] = Field(default_factory=dict)
    """What was measured of it, by name."""
    notes: str = ""
    created: float = 0.0
    """Unix time."""
    files: dict[str, str] = Field(default_factory=dict)
    """sha256 of every other file by its path within the directory: a version never changes."""

    @property
    def full_name(self) -> str:
        """Name and version, such as `planner@v3`: what calls record and servers know."""
        return versioned_name(self.name, self.version)


def versioned_name(policy: str, version: int) -> str:
    """Return the name of a version, such as `planner@v3`.

    Raises:
        ConfigError: the parts make no such name.
    """
    name = f"{policy}@v{version}"
    split_name(name)
    return name


def split_name(full_name: str) -> tuple[str, int]:
    """Return the policy and the version that `planner@v3` means.

    Raises:
        ConfigError: it does not look like that.
    """
    found = _NAME.fullmatch(full_name)
    if not found:
        raise ConfigError(
            f"{full_name!r} names no policy version: use letters, digits, '.', '_' and '-', then @v and a number, "
            "such as planner@v3."
        )
    return found["policy"], int(found["version"])
