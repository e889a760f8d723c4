"""The memory as text: one pure function of the turns and a budget."""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from graph.records import Observation, Turn
from graph.weight import weight

_SHORTEST_RESULT = 200
_REMEMBERED = 1_000
_rendered: "dict[tuple[int, int, int], tuple[Turn, _Part]]" = {}
"""Texts by identity of the turn, which the value keeps alive, so that no other turn can have its identity."""
_NOTE = " … [{} characters left out] … "
CUT = re.compile(re.escape(_NOTE).replace(re.escape("{}"), "[0-9]+"))
"""Finds where a text was cut."""


def cut(text: str, limit: int) -> str:
    """Return `text` within `limit` characters, keeping its head and tail around the number of characters left out."""
    if len(text) <= limit:
        return text
    room = limit - len(_NOTE.format(len(text)))
    if room <= 0:
        return text[:limit]
    head = (room * 2 + 2) // 3
    tail = room - head
    return text[:head] + _NOTE.format(len(text) - head - tail) + text[len(text) - tail :]


def cut_to_weight(text: str, limit: int) -> str:
    """Return `text` within a weight of `limit`, as `cut` does."""
    shorter = cut(text, limit)  # a character weighs at least 1
    while shorter and (heavy := weight(shorter)) > limit:
        shorter = cut(text, len(shorter) * limit // heavy * 19 // 20)
    return shorter


def render_memory(turns: Sequence[Turn], budget: int) -> str:
    """Render the turns within a weight of `budget` characters.

    Deterministic, and each turn's text stays the same as later turns are added for as long as all fits, so that a
    server's prefix cache holds. When it does not fit, results are cut, oldest first; when even that is too long, the
    oldest turns give way to one line that counts them. The last turn is always there.
    """
    if not turns:
        return "(empty)"
    parts = _shortest(turns, budget)
    dropped = len(turns) - len(parts)
    room = budget - _length([_dropped(dropped), *parts] if dropped else parts)
    for index in range(len(parts) - 1, -1, -1):
        number, turn = dropped + index + 1, turns[dropped + index]
        whole = _render_turn(number, turn, budget)
        grown = whole.weight - parts[index].weight
        if grown > room:
            results = 2 * len(turn.observations) + len(turn.faults)
            limit = max(_SHORTEST_RESULT, _SHORTEST_RESULT + room // max(1, results))
            parts[index] = _render_turn(number, turn, limit)
            break
        parts[index] = whole
        room -= grown
    if dropped:
        parts.insert(0, _dropped(dropped))
    text = "\n\n".join(part.text for part in parts)
    return text if _length(parts) <= budget else cut_to_weight(text, budget)


class _Part(NamedTuple):
    text: str
    weight: int


def _shortest(turns: Sequence[Turn], budget: int) -> list[_Part]:
    """Return the latest turns that fit with all their results cut; at least one."""
    parts: list[_Part] = []
    length = -2
    for number in range(len(turns), 0, -1):
        part = _render_turn(number, turns[number - 1], _SHORTEST_RESULT)
        length += part.weight + 2
        if parts and length > budget:
            break
        parts.insert(0, part)
    while len(parts) > 1 and len(parts) < len(turns) and _length([_dropped(len(turns) - len(parts)), *parts]) > budget:
        parts.pop(0)
    return parts


def _dropped(count: int) -> _Part:
    text = f"({count} earlier turns left out)"
    return _Part(text, weight(text))


def _length(parts: Sequence[_Part]) -> int:
    return sum(part.weight for part in parts) + 2 * (len(parts) - 1)


def _render_turn(number: int, turn: Turn, limit: int) -> _Part:
    """Render one turn. Earlier turns are rendered for every call of a run, and never change: they are remembered."""
    key = id(turn), number, limit
    known = _rendered.get(key)
    if known is not None and known[0] is turn:
        return known[1]
    text = _render_lines(number, turn, limit)
    part = _Part(text, weight(text))
    if len(_rendered) >= _REMEMBERED:
        _rendered.clear()
    _rendered[key] = turn, part
    return part


def _render_lines(number: int, turn: Turn, limit: int) -> str:
    lines = [f"Turn {number}"]
    if turn.plan:
        lines += [f"Sub-goal: {turn.plan.sub_goal}", f"Tool: {turn.plan.tool}"]
    lines += [line for result in turn.observations for line in _render_observation(result, limit)]
    lines += [f"Error in {fault.module}: {cut_to_weight(fault.message, limit)}" for fault in turn.faults]
    if turn.verdict and not turn.verdict.stop and turn.verdict.analysis:
        lines.append(f"Missing: {turn.verdict.analysis}")
    return "\n".join(lines)


def _render_observation(result: Observation, limit: int) -> list[str]:
    arguments = "\n".join(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in result.arguments.values()
    )
    label = {"ok": "Result", "error": "Error", "timeout": "Timeout"}[result.status]
    return [f"Call: {cut_to_weight(arguments, min(limit, 600))}", f"{label}: {cut_to_weight(result.content, limit)}"]
