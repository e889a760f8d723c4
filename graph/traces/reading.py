"""Reads one trajectory from JSON, strictly: what is wrong with it is said in a sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from graph.errors import TraceError
from graph.trace import SCHEMA_VERSION, Trajectory


@dataclass(frozen=True)
class Damage:
    """A record that was skipped."""

    where: str
    """File, and line or row."""
    kind: str
    """`torn` for a last line that was not written to its end, `version`, or the type of pydantic's first error."""
    why: str
    """A sentence."""


OnDamage = Callable[[Damage], None]


class DamagedTraceError(TraceError):
    """A record that is no trajectory of this schema."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(f"{damage.where}: {damage.why}")
        self.damage = damage


def parse_trajectory(data: str | bytes, where: str) -> Trajectory:
    """Return the trajectory that a JSON text holds.

    Args:
        data: one JSON object; bytes are UTF-8.
        where: the place to name when it is damaged.

    Raises:
        DamagedTraceError: it is no JSON, of another schema version, or breaks an invariant of the schema.
    """
    try:
        return Trajectory.model_validate_json(data, strict=True)
    except ValidationError as error:
        raise DamagedTraceError(_damage(data, where, error)) from error


def _damage(data: str | bytes, where: str, error: ValidationError) -> Damage:
    if (version := _version(data)) not in {None, SCHEMA_VERSION}:
        why = (
            f"it is of schema version {version!r}, and this release reads version {SCHEMA_VERSION}: use the release "
            "that wrote it."
        )
        return Damage(where, "version", why)
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    said = str(first["msg"]).rstrip(".")
    return Damage(where, first["type"], f"{place}: {said}." if place else f"{said}.")


def _version(data: str | bytes) -> Any:
    try:
        found = from_json(data)
    except ValueError:
        return None
    return found.get("schema_version") if isinstance(found, dict) else None
