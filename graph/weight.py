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
# Letters become a, digits 0, symbols !, the rest blanks: counting and searching single characters is what strings do
# many times faster than patterns, and a run's memory is weighed for each of its calls.
_KINDS = bytearray(b" " * 256)
for _characters, _kind in ((string.punctuation, b"!"), (string.ascii_letters + "_", b"a"), (string.digits, b"0")):
    for _character in _characters:
        _KINDS[ord(_character)] = _kind[0]
_NO_WORD_SIGNS = (b"a0", b"0a", b"a" * 25)
"""One of these is wherever `_NO_WORDS` finds something that weighs more than its digits."""


@lru_cache(maxsize=1_000)
def weight(text: str) -> int:
    """Return the weight of `text`: at least its length."""
    kinds = text.encode().translate(_KINDS) if text.isascii() else b""
    if kinds:
        extra = 1.5 * (kinds.count(b"0") + kinds.count(b"!") + text.count("_"))
    else:
        extra = 1.5 * (_digits(text) + len(_SYMBOLS.findall(text)) + len(_FOREIGN.findall(text)))
        extra += 1.25 * len(_FOREIGN_SYMBOLS.findall(text))
    if not kinds or any(sign in kinds for sign in _NO_WORD_SIGNS):
        extra += sum(len(run) - _digits(run) for run in _NO_WORDS.findall(text))
    return len(text) + math.ceil(extra)


def _digits(text: str) -> int:
    return sum(map(text.count, string.digits))
