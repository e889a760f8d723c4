"""Which offered tool a name means, as models spell it."""

import re
from collections.abc import Sequence

_FILLER = frozenset(
    {
        *("tool", "tools", "the", "use", "using", "call", "function", "functions"),
        *("api", "coder", "code", "interpreter", "search"),
    }
)


def resolve_tool(name: str, offered: Sequence[str]) -> str | None:
    """Return the one offered tool that `name` means, or None where it means none or more than one.

    Case, quotes, backticks, final punctuation, spaces, hyphens and underscores do not matter, nor does the order of
    the words; words such as "tool" may be added.
    """
    if name in offered:
        return name
    words = _words(name)
    if not words:
        return None
    for same in (
        [tool for tool in offered if _words(tool) == words],
        [tool for tool in offered if "".join(_words(tool)) == "".join(words)],
        [tool for tool in offered if sorted(_words(tool)) == sorted(words)],
        _within(set(words), offered),
    ):
        if same:
            return same[0] if len(same) == 1 else None
    return None


def _within(words: set[str], offered: Sequence[str]) -> list[str]:
    """Return the tools all of whose words are among `words`, the rest of which is filler; the most specific only."""
    inside = {tool: set(_words(tool)) for tool in offered if _words(tool) and set(_words(tool)) < words}
    specific = [tool for tool, own in inside.items() if not any(own < other for other in inside.values())]
    if len(specific) == 1 and not words - inside[specific[0]] <= _FILLER:
        return []
    return specific


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return re.findall(r"[^\W_]+", spaced.casefold())
