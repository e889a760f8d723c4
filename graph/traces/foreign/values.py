"""Reads single values of foreign files, which may be of any type: what does not fit is None."""

import ast
import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from graph.plain import plain_json, plain_text

_MILLISECONDS = 1e11
"""Times from here on are milliseconds: as seconds they would lie in the year 5138 and later."""
_LATEST = 253_402_300_800.0
"""The end of the year 9999."""
_LONGEST_LITERAL = 1_000_000


def text_of(value: Any) -> str | None:
    """Return a text, or a finite number as text; None where it is empty or anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None if isinstance(value, float) and not math.isfinite(value) else str(plain_json(value))
    return plain_text(value) if isinstance(value, str) and value.strip() else None


def texts_of(value: Any) -> tuple[str, ...] | None:
    """Return a text or a list of texts as a tuple; None where there is none."""
    found = [text_of(item) for item in (value if isinstance(value, list) else [value])]
    return tuple(dict.fromkeys(text for text in found if text is not None)) or None


def number_of(value: Any) -> float | None:
    """Return a finite number, also from True and False."""
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return an object, also one that was stored as JSON text or as Python's repr; empty for anything else."""
    if isinstance(value, str):
        value = _literal(value)
    return {name: item for name, item in value.items() if isinstance(name, str)} if isinstance(value, Mapping) else {}


def first_of(record: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the value of the first name that the record has and that is not None."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def unix_time(value: Any) -> float | None:
    """Return a time as Unix time: seconds, milliseconds, or ISO 8601, which is UTC where it names no zone."""
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value.strip())
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or (number := number_of(value)) is None:
        return None
    seconds = number / 1000 if number >= _MILLISECONDS else number
    return seconds if 0 < seconds < _LATEST else None


def as_content(value: Any) -> str:
    """Return a tool's result as text: itself, or JSON."""
    return plain_text(value) if isinstance(value, str) else json.dumps(plain_json(value), ensure_ascii=False)


def _literal(text: str) -> Any:
    if len(text) > _LONGEST_LITERAL:
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    return None
