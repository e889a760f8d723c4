"""The JSON Schema of a trajectory, as docs/trajectory.schema.json publishes it."""

import json
from typing import Any

from graph.trace import SCHEMA_VERSION, Trajectory

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Return the schema of one line of a file of trajectories."""
    described = Trajectory.model_json_schema(mode="validation")
    return {"$schema": _DIALECT, **described, "title": f"AgentFlow trajectory, version {SCHEMA_VERSION}"}


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
