"""Reads the commands of the original AgentFlow: Python text that calls `tool.execute(…)`."""

import ast
from collections.abc import Mapping
from typing import Any

from graph.plain import plain_json, plain_text

_LONGEST = 200_000
_NO_LITERAL = object()


def read_calls(command: str) -> tuple[dict[str, Any], ...]:
    """Return the arguments of the calls that a command makes, in order.

    They are read where all of them are literals, or names that were given one before. Any other command is one call
    with its text as `command`. Nothing is run.
    """
    whole: tuple[dict[str, Any], ...] = ({"command": plain_text(command)},)
    if len(command) > _LONGEST:
        return whole
    try:
        body = ast.parse(command).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return whole
    known: dict[str, Any] = {}
    calls: list[dict[str, Any]] = []
    for statement in body:
        if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
            return whole
        if isinstance(statement.value, ast.Call):
            arguments = _arguments(statement.value, known)
            if arguments is None:
                return whole
            calls.append(plain_json(arguments))
        elif isinstance(name := statement.targets[0], ast.Name):
            known[name.id] = _literal(statement.value, known)
    return tuple(calls) or whole


def _arguments(call: ast.Call, known: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `tool.execute(name=literal, …)`; None for any other call."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="tool"), attr="execute") if not call.args:
            values = {keyword.arg: _literal(keyword.value, known) for keyword in call.keywords}
        case _:
            return None
    if None in values or any(value is _NO_LITERAL for value in values.values()):
        return None
    return {str(name): value for name, value in values.items()}


def _literal(node: ast.expr, known: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return known.get(node.id, _NO_LITERAL)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return _NO_LITERAL
