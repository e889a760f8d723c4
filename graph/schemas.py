"""JSON Schemas that constrain what each module may write.

Keys come in the order in which the model should think; every string is bounded, as small models otherwise never end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from graph.state import FlowState, ToolDescription

MAX_CALLS = 4


def schema_for(role: str, state: FlowState, turn: int) -> dict[str, Any] | None:
    """Return the schema of `role`'s output in turn `turn`; None where it writes free text (a fenced code block)."""
    setup = state["setup"]
    names = [tool.name for tool in setup.tools]
    match role:
        case "analyzer":
            return _analysis(names, followup=bool(state["request"].history))
        case "planner":
            return _object(
                justification=_text(160),
                context=_text(400),
                sub_goal=_text(300),
                tool={"type": "string", "enum": names},
            )
        case "executor":
            plan = state["turns"][turn].plan
            return _command(next(tool for tool in setup.tools if plan is not None and tool.name == plan.tool))
        case "verifier":
            return _object(analysis=_text(200), stop={"type": "boolean"})
        case "generator":
            return _object(solution=_text(500), answer=_text(300))
    raise KeyError(role)


def _analysis(names: Sequence[str], *, followup: bool) -> dict[str, Any]:
    useful = {"tools": {"type": "array", "items": {"type": "string", "enum": list(names)}, "maxItems": 3}}
    fields = {
        "summary": _text(120),
        "skills": _text(60),
        **(useful if names else {}),
        "considerations": _text(120),
    }
    return _object(**({"question": _text(400)} if followup else {}), **fields)


def _command(tool: ToolDescription) -> dict[str, Any] | None:
    if tool.code_argument:
        return None
    arguments = {"type": "object", "additionalProperties": False} | dict(tool.arguments)
    # References start at the root of a schema, so what they refer to moves there.
    shared = {key: arguments.pop(key) for key in ("$defs", "definitions") if key in arguments}
    return _object(calls={"type": "array", "items": arguments, "minItems": 1, "maxItems": MAX_CALLS}) | shared


def _object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _text(limit: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": limit}
