"""Whether a short answer states the reference: by number and unit, by date, by list, else by text."""

import re

from evals.dates import read_date
from evals.normalise import key, plain
from evals.quantity import Quantity, equal, quantity

_SEPARATOR = re.compile(r" ?[,;] ?(?:and )?| and | ?& ?")
_ITEMS = 100
_WORKED = re.compile(r"[\^*/(]")
"""What makes a reference an expression: `1914-1918` is a span of years, not -4."""


def same(candidate: str, reference: str) -> bool | None:
    """True or False; None where the candidate may mean the reference or something else, such as 05/04/2023."""
    if key(candidate) == key(reference):
        return True
    answer, wanted = plain(candidate), plain(reference)
    if len(dates := read_date(wanted)) == 1:
        meant = read_date(answer)
        return (meant == dates or None) if dates <= meant else False
    if (number := reference_number(wanted)) is not None:
        found = quantity(answer, expression=quantity(wanted) is None)
        return found is not None and equal(found, number)
    if (items := _items(wanted)) is not None:
        return _same_items(_items(answer), items)
    return False


def reference_number(text: str) -> Quantity | None:
    """The number that a plain reference states, worked out where it is an expression."""
    return quantity(text, expression=_WORKED.search(text) is not None)


def _items(text: str) -> tuple[str, list[Quantity]] | None:
    """The opening bracket, if any, and the numbers of a list of at least two; None where the text is no such list."""
    text = text.strip().rstrip(" .;,")
    bracket = ""
    if len(text) > 2 and text[0] + text[-1] in ("()", "[]", "{}"):
        bracket, text = text[0], text[1:-1].strip()
    parts = _SEPARATOR.split(text, maxsplit=_ITEMS)
    if len(parts) == 2 and not bracket and re.fullmatch(r"\d{1,3},\d{3}", text):
        return None
    numbers = [quantity(part) for part in parts]
    found = [number for number in numbers if number is not None]
    return (bracket, found) if 1 < len(found) == len(parts) <= _ITEMS else None


def _same_items(candidate: tuple[str, list[Quantity]] | None, reference: tuple[str, list[Quantity]]) -> bool:
    """Item by item; in any order where the reference is a set in braces. Brackets differ only where both have them."""
    if candidate is None or len(candidate[1]) != len(reference[1]):
        return False
    if candidate[0] and reference[0] and candidate[0] != reference[0]:
        return False
    left = list(candidate[1])
    for position, item in enumerate(reference[1]):
        options = left if reference[0] == "{" else candidate[1][position : position + 1]
        match = next((option for option in options if equal(option, item)), None)
        if match is None:
            return False
        left.remove(match)
    return True
