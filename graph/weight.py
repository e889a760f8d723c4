"""How much of a model's context a text takes, in characters of plain prose.

Tokenizers spend a token on four or five letters of prose, but on every single digit, on most symbols, on about two
characters of what is no word (hexadecimal, base64), and one or two on a character outside ASCII. Counting with the
server's own tokenizer would cost a request for every text that is considered.
"""

import math
import re

CHARS_PER_TOKEN = 2.5
"""Of text that weighs 1 a character; cautious, so that what is let through also fits."""
_DIGITS = re.compile(r"[0-9]")
_SYMBOLS = re.compile(r"[!-/:-@\[-`{-~]")
_NO_WORDS = re.compile(r"\b(?=[A-Za-z_]*[0-9])(?=[0-9]*[A-Za-z_])[A-Za-z0-9_]{3,}\b|[A-Za-z0-9_]{25,}")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_FOREIGN_SYMBOLS = re.compile(r"[^\x00-\x7f\w]")


def weight(text: str) -> int:
    """Return the weight of `text`: at least its length."""
    extra = 1.5 * (len(_DIGITS.findall(text)) + len(_SYMBOLS.findall(text)))
    extra += 1.5 * len(_FOREIGN.findall(text)) + 1.25 * len(_FOREIGN_SYMBOLS.findall(text))
    extra += sum(len(run) - len(_DIGITS.findall(run)) for run in _NO_WORDS.findall(text))
    return len(text) + math.ceil(extra)
