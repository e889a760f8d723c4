"""Numbers with what belongs to them: a percent sign, a currency, a unit, a counted thing.

A candidate is read in closed form only (`1,024`, `1.5e3`, `3 * 10^8`, a reduced fraction, `twenty-one`): `387 * 246`
has a value, but as the answer to "what is 387 times 246" it says nothing. Where the reference itself is an expression
(`2^{10}`), candidates may be too.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from evals.arithmetic import evaluate
from evals.number_words import SCALES, WORDS, spelled
from evals.units import unit

_DIGITS = 300
"""Longer numbers are text: CPython refuses to read thousands of digits, and nobody answers with them."""
_EXPONENT = 1000

_APPROXIMATE = re.compile(
    r"^(?:(?:approximately|approx\.?|about|around|roughly|circa|ca\.?)(?= )|≈|~) ?", re.IGNORECASE
)
_LEAD = re.compile(r"^(?:exactly|just|only|precisely|a total of|in total|total|day|number|no\.) ", re.IGNORECASE)
_VARIABLE = re.compile(r"^(?:[a-z] ?)?= ?", re.IGNORECASE)
_SIGN = re.compile(r"^(?:([+-])|(?:minus|negative) ) ?", re.IGNORECASE)
_MONEY = re.compile(r"^(US ?\$|\$|€|£|¥|USD|EUR|GBP) ?(?=[-+\d.])")
_GROUPED = r"\d{1,3}(?:,\d{3})+(?!\d|,\d)|\d{1,3}(?: \d{3})+(?! ?\d)|\d{1,3}(?:_\d{3})+(?!\d)"
_TEN = r"10 ?(?:\^|\*\*) ?(?:\((?P<{0}>[+-]?\d+)\)|(?P<{0}_>[+-]?\d+))"
_CORE = re.compile(
    rf"(?P<ten>{_TEN.format('power')})"
    r"|(?:(?P<whole>\d+) )?\(?(?P<over>\d+)\)? ?/ ?\(?(?P<under>\d+)\)?"
    rf"|(?P<decimal>(?:{_GROUPED}|\d+)(?:\.\d+)?|\.\d+)(?:e(?P<e>[+-]?\d+)| ?[*x] ?{_TEN.format('by')})?",
    re.IGNORECASE,
)
_SCALE = re.compile(rf" ?({'|'.join(SCALES)})(?!\w)", re.IGNORECASE)
_PERCENT = re.compile(r" ?(?:%|per ?cent(?!\w)|pct(?!\w)\.?)", re.IGNORECASE)
_START = re.compile(rf"(?<![\w.])(?=[-+$€£¥\d.]|US\$|(?:a|{'|'.join(WORDS)})(?!\w))", re.IGNORECASE)
_THINGS = re.compile(
    r"(?: (?:[^\W\d_]{2,}(?:['-][^\W\d_]+)*|[^\W\d_]'s|a|(?<=letter )[^\W\d_]|(?<=letter )'[^\W\d_]'))*"
)
_MARKED = {
    "and", "are", "bc", "bce", "be", "but", "cubed", "either", "except", "factorial", "false", "half", "incorrect",
    "instead", "is", "least", "maybe", "minus", "most", "neither", "never", "no", "nor", "not", "or", "per", "perhaps",
    "pi", "plus", "possibly", "sqrt", "squared", "than", "unless", "was", "were", "wrong",
    "billions", "dozens", "hundreds", "millions", "thousands", *WORDS, *SCALES,
}  # fmt: skip
"""Words after a number that make it another number, or no answer."""


@dataclass(frozen=True)
class Quantity:
    """A number and what it counts or measures."""

    value: Fraction
    """Of a percentage the figure before the sign: 50 % is 50."""
    percent: bool = False
    unit: str = ""
    """One spelling for each known unit (`evals.units`); "" where there is none, or only words for what is counted."""
    things: str = ""
    """The words after the number, where they are no known unit."""


def quantity(text: str, *, expression: bool = False) -> Quantity | None:
    """Read a whole plain text as one number; None where it is anything else.

    With `expression` the text may also be arithmetic that is not worked out.
    """
    text = _LEAD.sub("", _APPROXIMATE.sub("", _VARIABLE.sub("", _bare(text))))
    negative, money, rest = _prefix(text)
    found = _core(rest)
    if found is not None:
        value, end = found
        tail = _tail(rest[end:], money)
        if tail is not None:
            scale, percent, measure, things = tail
            return Quantity((-value if negative else value) * scale, percent, measure, things)
    value_or_none = evaluate(text) if expression else None
    return None if value_or_none is None else Quantity(value_or_none)


def mentioned(text: str) -> list[Quantity]:
    """Every number in a plain text, with the unit that follows it directly."""
    found, position = [], 0
    while match := _START.search(text, position):
        negative, money, rest = _prefix(text[match.start() :])
        core = _core(rest)
        if core is None:
            position = match.start() + 1
            continue
        scale, percent, measure, end = _measure(rest, core[1], money)
        position = max(match.start() + 1, len(text) - len(rest) + end)
        found.append(Quantity((-core[0] if negative else core[0]) * scale, percent, measure))
    return found


def equal(candidate: Quantity, reference: Quantity) -> bool:
    """Whether the candidate states the reference's number.

    A unit may be left out but not be another one, and a reference without a unit accepts any. `50 %` is 0.5, and where
    a percentage is wanted its figure alone will do.
    """
    if reference.percent:
        if candidate.percent:
            return candidate.value == reference.value
        return not candidate.unit and candidate.value in (reference.value, reference.value / 100)
    if candidate.percent:
        return not (reference.unit or reference.things) and candidate.value / 100 == reference.value
    if candidate.value != reference.value:
        return False
    if reference.unit:
        plain_degrees = candidate.unit == "°" and reference.unit.startswith("°")
        return candidate.unit in ("", reference.unit) or plain_degrees
    if reference.things:
        return not candidate.unit and candidate.things in ("", reference.things)
    return True


def _bare(text: str) -> str:
    text = text.strip().rstrip(" .;,").replace("(s)", "s")
    match = re.fullmatch(r"\(([^()]+)\)|\[([^\[\]]+)\]", text)
    return (match[1] or match[2]).strip() if match else text


def _prefix(text: str) -> tuple[bool, str, str]:
    """Whether a minus leads, the currency that leads, and the rest."""
    negative, money = False, ""
    for _ in range(2):
        if match := _SIGN.match(text):
            negative |= match[1] != "+"
            text = text[match.end() :]
        elif not money and (match := _MONEY.match(text)):
            money = unit(match[1].replace(" ", ""))[0]
            text = text[match.end() :]
    return negative, money, text


def _core(text: str) -> tuple[Fraction, int] | None:
    match = _CORE.match(text)
    if match is None:
        words = spelled(text)
        return (Fraction(words[0]), words[1]) if words else None
    if len(match[0]) > _DIGITS:
        return None
    if match["over"]:
        over, under, whole = int(match["over"]), int(match["under"]), int(match["whole"] or 0)
        if under < 2 or gcd(over, under) != 1 or (match["whole"] and over > under):
            return None
        return Fraction(over, under) + whole, match.end()
    power = int(match["power"] or match["power_"] or match["e"] or match["by"] or match["by_"] or 0)
    if abs(power) > _EXPONENT:
        return None
    figure = re.sub("[, _]", "", match["decimal"]) if match["decimal"] else "1"
    return Fraction(figure) * Fraction(10) ** power, match.end()


def _measure(text: str, end: int, money: str) -> tuple[int, bool, str, int]:
    """Scale, percent sign and unit after a number that ends at `end`, and where they end."""
    scale = 1
    if match := _SCALE.match(text, end):
        scale, end = SCALES[match[1].casefold()], match.end()
    if match := _PERCENT.match(text, end):
        return scale, True, money, match.end()
    start = end + text.startswith((" ", "-"), end)
    measure, length = unit(text[start:])
    return scale, False, money or measure, start + length if measure else end


def _tail(text: str, money: str) -> tuple[int, bool, str, str] | None:
    """Scale, percent, unit and words of all that follows a number; None where it changes the number."""
    scale, percent, measure, end = _measure(text, 0, money)
    things = text[end:].replace(" of ", " ")
    if not _THINGS.fullmatch(things):
        return None
    words = things.casefold().split()
    if len(words) > 6 or not _MARKED.isdisjoint(words):
        return None
    if not measure and not percent:
        # "36 completed years": the unit may come after what qualifies it
        measure = next((found for word in words if len(word) > 2 and (found := unit(word)[0])), "")
    return scale, percent, measure, "" if measure else " ".join(words)
