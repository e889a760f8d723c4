"""Text and JSON that every store and server takes.

Models and tools can bring what Python holds but UTF-8, msgpack, JSON or PostgreSQL refuse: half a surrogate pair, NUL,
integers beyond 64 bits, infinities, sets, objects of any class. One of them would fail a run at its next checkpoint.
"""

import math
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python


def plain_text(text: str) -> str:
    """Return `text` without NUL and with U+FFFD or the character meant in place of lone surrogates."""
    # A pair of surrogates, as two JSON escapes leave it, is one character.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _has_surrogates(text) else text
    return whole.replace("\x00", "")


def plain_json(value: Any) -> Any:
    """Return `value` as plain JSON: numbers that do not fit and objects of other classes become text."""
    match value:
        case None | bool():
            return value
        case str():
            return plain_text(value)
        case int():
            return value if -(2**63) <= value < 2**63 else _digits(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {plain_text(str(key)): plain_json(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_json(item) for item in value]
    try:
        return plain_json(to_jsonable_python(value))
    except (PydanticSerializationError, ValueError):
        return plain_text(str(value))


def _has_surrogates(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _digits(value: int) -> str:
    # str() refuses integers of more than 4300 digits; hex has no limit.
    return str(value) if value.bit_length() < 14_000 else hex(value)
