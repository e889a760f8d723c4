"""Numbers below a thousand in English words, and the words that scale a number."""

import re

_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEENS = ["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS = {word: n for n, word in enumerate(_ONES + _TEENS)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}

_DIGIT = "|".join(_ONES[1:])
_BELOW_HUNDRED = (
    rf"(?P<tens>{'|'.join(_TENS)})(?:[ -](?P<ones>{_DIGIT})(?!\w))?|(?P<small>{'|'.join(_TEENS)}|zero|{_DIGIT})"
)
_SPELLED = re.compile(
    rf"(?P<hundreds>{_DIGIT}|a) hundred(?: (?:and )?(?:{_BELOW_HUNDRED})(?![\w-]))?(?![\w-])", re.IGNORECASE
)
_SPELLED_BELOW_HUNDRED = re.compile(rf"(?:{_BELOW_HUNDRED})(?![\w-])", re.IGNORECASE)


def spelled(text: str) -> tuple[int, int] | None:
    """The number in words that a text begins with, and where it ends."""
    match = _SPELLED.match(text) or _SPELLED_BELOW_HUNDRED.match(text)
    if match is None:
        return None
    parts = {name: (word or "").casefold() for name, word in match.groupdict().items()}
    hundreds = 1 if parts.get("hundreds") == "a" else WORDS.get(parts.get("hundreds", ""), 0)
    return 100 * hundreds + sum(WORDS.get(parts[name], 0) for name in ("tens", "ones", "small")), match.end()
