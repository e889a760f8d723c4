"""How much of a model's context a text takes, in characters of plain prose.

Tokenizers spend a token on four or five letters of prose, but on every single digit, on most symbols, on about two
characters of what is no word (hexadecimal, base64), and one or two on a character outside ASCII. Counting with the
server's own tokenizer would cost a request for every text that is considered.
"""

import math
import re
import string
from functools import lru_cache

CHARS_PER_TOKEN = 2.5
"""Of text that weighs 1 a character; cautious, so that what is let through also fits."""
_SYMBOLS = re.compile(r"[!-/:-@\[-`{-~]")
_NO_WORDS = re.compile(r"\b(?=[A-Za-z_]*[0-9])(?=[0-9]*[A-Za-z_])[A-Za-z0-9_]{3,}\b|[A-Za-z0-9_]{25,}")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_FOREIGN_SYMBOLS = re.compile(r"[^\x00-\x7f\w]")
_LONGEST_WORD = 24
# Letters become a, digits 0, symbols !, the rest blanks: counting and searching single characters is what strings do
# many times faster than patterns, and a run's memory is weighed for each of its calls.
_KINDS = str.maketrans(
    dict.fromkeys(map(chr, range(128)), " ")
    | dict.fromkeys(string.punctuation, "!")
    | dict.fromkeys(string.ascii_letters + "_", "a")
    | dict.fromkeys(string.digits, "0")
)


@lru_cache(maxsize=1_000)
def weight(text: str) -> int:
    """Return the weight of `text`: at least its length."""
    kinds = text.translate(_KINDS) if text.isascii() else ""
    if kinds:
        extra = 1.5 * (kinds.count("0") + kinds.count("!") + text.count("_"))
    else:
        extra = 1.5 * (_digits(text) + len(_SYMBOLS.findall(text)) + len(_FOREIGN.findall(text)))
        extra += 1.25 * len(_FOREIGN_SYMBOLS.findall(text))
    if not kinds or _may_hold_no_words(kinds):
        extra += sum(len(run) - _digits(run) for run in _NO_WORDS.findall(text))
    return len(text) + math.ceil(extra)


def _may_hold_no_words(kinds: str) -> bool:
    if "a0" in kinds or "0a" in kinds:
        return True
    return max(map(len, kinds.replace("!", " ").split()), default=0) > _LONGEST_WORD


def _digits(text: str) -> int:
    return sum(map(text.count, string.digits))
