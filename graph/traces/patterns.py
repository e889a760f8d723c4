"""What exports replace: the form that a pattern has, and keys, which are known by their shape."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

KEY: Final = "key"
"""Name under which keys are replaced, whatever they are for."""


def _whole(match: re.Match[str]) -> int:
    return len(match[0])


@dataclass(frozen=True)
class Pattern:
    """One thing to replace."""

    name: str
    regex: re.Pattern[str]
    needs: tuple[str, ...] = ()
    """A text without any of these holds no match; empty: the expression itself is quick."""
    length: Callable[[re.Match[str]], int] = _whole
    """Returns how many characters of a candidate, from its beginning, are a match; 0 for none."""
    hint: re.Pattern[str] | None = None
    """Quicker than the expression, and found in whatever holds a match."""
    shapes: tuple[bytes, ...] = ()
    """Likewise: texts with 0 for every digit, A for every capital and a space for every hyphen."""

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where matches begin and end, in order; where the expression has a group `secret`, only that part."""
        if self.needs and not any(needed in text for needed in self.needs):
            return
        if self.hint and not self.hint.search(text):
            return
        if self.shapes and not any(shape in _shape(text) for shape in self.shapes):
            return
        at = 0
        while match := self.regex.search(text, at):
            length = self.length(match)
            at = match.start() + (length or 1)
            if length and "secret" in self.regex.groupindex:
                yield match.span("secret")
            elif length:
                yield match.start(), at


_SHAPES = bytes.maketrans(b"123456789BCDEFGHIJKLMNOPQRSTUVWXYZ-", b"0" * 9 + b"A" * 25 + b" ")


@lru_cache(maxsize=4)
def _shape(text: str) -> bytes:
    return text.encode("utf-8", "replace").translate(_SHAPES)


def own_pattern(name: str, regex: str) -> Pattern:
    """Make a pattern of a user's expression.

    Raises:
        ValueError: the name or the expression cannot be used; the message says why.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,31}", name):
        raise ValueError(f"the name {name[:40]!r} must be a word of letters, digits, - and _")
    try:
        compiled = re.compile(regex)
    except re.error as error:
        raise ValueError(f"{name} is no regular expression ({error})") from error
    if compiled.search(""):
        raise ValueError(f"{name} matches where there is nothing")
    return Pattern(name, compiled, length=_whole)


def begin(first: str, neighbours: str) -> str:
    r"""Return an expression for `first`, which begins a match, with none of `neighbours` before it.

    The text may be JSON that a model wrote, with an escape such as `\n` before it. What stands before comes last, as
    searching is quick for what begins with a character.
    """
    return rf"{first}(?:(?<![\\{neighbours}]{first})|(?<=\\[nrtbf]{first}))"


def _looks_random(match: re.Match[str]) -> int:
    """Take what has a long run of letters and digits, as words joined by hyphens have not."""
    run = max(re.findall(r"[A-Za-z0-9]+", match[0]), key=len)
    mixed = any(map(str.isdigit, run)) and any(map(str.isalpha, run))
    return len(match[0]) if mixed and len(run) >= 12 else 0


def _has_digit(match: re.Match[str]) -> int:
    return len(match[0]) if any(map(str.isdigit, match["secret"])) else 0


def _key(prefix: str, rest: str, *, length: Callable[[re.Match[str]], int] = _whole) -> Pattern:
    return Pattern(KEY, re.compile(begin(prefix, "A-Za-z0-9_") + rest), (prefix,), length)


_PRIVATE = r"(?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_BODY = r"[A-Za-z0-9+/=\s:,.-]|\\[nr]"
KEYS: Final = (
    # The end may be missing, where a text was cut.
    Pattern(
        KEY,
        re.compile(rf"-----BEGIN {_PRIVATE}(?:{_BODY})*?(?:-----END {_PRIVATE}|(?!{_BODY})|\Z)"),
        ("PRIVATE KEY",),
    ),
    _key("eyJ", r"[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
    _key("sk-", r"[\w-]{20,}", length=_looks_random),
    _key("hf_", r"[A-Za-z0-9]{30,}"),
    _key("gh", r"[pousr]_[A-Za-z0-9]{30,}"),
    _key("github_pat_", r"\w{22,}"),
    _key("A", r"(?:(?:KIA|SIA)[A-Z0-9]{16}(?!\w)|Iza[\w-]{30,40}(?![\w-]))"),
    _key("tvly-", r"[\w-]{20,}", length=_looks_random),
    _key("xox", r"[abeoprs]-[\w-]{10,}"),
    Pattern(
        KEY,
        re.compile(r"(?i:bearer)[ \t]+(?P<secret>[\w.~+/-]{16,}=*)"),
        ("earer ",),
        _has_digit,
    ),
    Pattern(
        "password",
        re.compile(r"://[^\s/?#:@\"'<>]{0,100}:(?P<secret>[^\s/?#\"'<>]{1,200})@(?=[^\s@])"),
        ("://",),
    ),
)
"""Replaced in every export."""


def without_keys(text: str) -> str:
    """Return `text` without what is a key by its shape: for messages that repeat what somebody wrote."""
    for pattern in KEYS:
        for start, end in reversed(list(pattern.find(text))):
            text = f"{text[:start]}[{pattern.name}]{text[end:]}"
    return text
