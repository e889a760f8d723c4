"""Fenced code blocks, as models write them."""

import ast
import re
from collections.abc import Sequence

from graph.thought import after_thought

_OPENING = re.compile(r"(?:[^`~\"'#]*[:\s])?(`{3,}|~{3,})[ \t]*([\w+-]*)[ \t]*")
_ONE_LINE = re.compile(r"(?:[^`\"'#]*[:\s])?```[ \t]*(?:python3?|py)[ \t]+([^`]+?)[ \t]*```[ \t]*")
_PYTHON = frozenset({"", "py", "py3", "python", "python3", "ipython"})


def code_blocks(text: str) -> list[str]:
    """Return the contents of the fenced Python blocks, or the whole text when it has no fence.

    A block ends at the first closing fence that leaves code which parses, so that a fence inside a string literal does
    not cut it; where none does, at the first. An unclosed block runs to the end. Blocks of another language are left
    out.
    """
    body = after_thought(text)
    lines = body.splitlines()
    blocks: list[str] = []
    fenced = False
    at = 0
    while at < len(lines):
        if whole := _ONE_LINE.fullmatch(lines[at]):
            blocks.append(whole.group(1))
            fenced = True
        elif opening := _OPENING.fullmatch(lines[at]):
            end = _closing(lines, at, opening.group(1))
            block = "\n".join(lines[at + 1 : end])
            if opening.group(2).lower() in _PYTHON and block.strip():
                blocks.append(block)
            fenced, at = True, end
        at += 1
    if not fenced and body.strip():
        return [body.strip()]
    return blocks


def _closing(lines: Sequence[str], opening: int, fence: str) -> int:
    """Return the index of the line that closes the block opened at `opening`."""
    mark = re.compile(rf"\s*{re.escape(fence)}\s*")
    found = [index for index in range(opening + 1, len(lines)) if mark.fullmatch(lines[index])] or [len(lines)]
    return next((index for index in found if _is_code("\n".join(lines[opening + 1 : index]))), found[0])


def _is_code(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True
