"""Text and JSON that every store and server takes.

Models and tools can bring what Python holds but UTF-8, msgpack, JSON or PostgreSQL refuse: half a surrogate pair, NUL,
integers beyond 64 bits, infinities, sets, objects of any class. One of them would fail a run at its next checkpoint.
"""

import math
from itertools import islice
from typing import Any

from pydantic_core import to_jsonable_python

_DEEPEST = 64
_MOST_VALUES = 100_000


def plain_text(text: str) -> str:
    """Return `text` without NUL and with U+FFFD or the character meant in place of lone surrogates."""
    # A pair of surrogates, as two JSON escapes leave it, is one character.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _has_surrogates(text) else text
    return whole.replace("\x00", "")


def plain_error(error: BaseException) -> str:
    """Return an exception's message; it may be of a user's class, whose message cannot be made."""
    return _told(error)


def plain_json(value: Any) -> Any:
    """Return `value` as plain JSON: numbers that do not fit and objects of other classes become text.

    What is nested more than 64 deep, holds itself, or comes after 100,000 other values is left out, with a note in its
    place.
    """
    return _Plainness().of(value, ())


class _Plainness:
    """Makes one value plain, and counts: a few lists that hold each other twice stand for more than memory holds."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def of(self, value: Any, within: tuple[int, ...]) -> Any:
        """Return `value` as plain JSON, where `within` are the ids of the containers around it."""
        self._left -= 1
        if self._left < 0 or len(within) > _DEEPEST or id(value) in within:
            return "(left out: nested too deeply or too large)"
        match value:
            case None | bool():
                return value
            case str():
                return plain_text(value)
            case int():
                return int(value) if -(2**63) <= value < 2**63 else _digits(value)
            case float():
                return float(value) if math.isfinite(value) else _told(value)
            case dict():
                inside = (*within, id(value))
                pairs = islice(value.items(), max(self._left, 0) + 1)
                return {_told(key): self.of(item, inside) for key, item in pairs}
            case list() | tuple():
                inside = (*within, id(value))
                return [self.of(item, inside) for item in islice(value, max(self._left, 0) + 1)]
        try:
            return self.of(to_jsonable_python(value), (*within, id(value)))
        except Exception:  # noqa: BLE001 - an object of a user's class may raise anything when it is looked at
            return _told(value)


def _told(value: Any) -> str:
    try:
        return plain_text(str(value))
    except BaseException:  # noqa: BLE001 - a user's __str__ may raise anything, also SystemExit
        return f"({type(value).__name__} that cannot be shown as text)"


def _has_surrogates(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _digits(value: int) -> str:
    # str() refuses integers of more than 4300 digits; hex has no limit.
    return str(value) if value.bit_length() < 14_000 else hex(value)
