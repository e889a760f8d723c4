"""The memory as text: one pure function of the turns and a budget."""

import json
from collections.abc import Sequence

from graph.records import Observation, Turn

_SHORTEST_RESULT = 200
_NOTE = " … [{} characters left out] … "


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


def render_memory(turns: Sequence[Turn], budget: int) -> str:
    """Render the turns within `budget` characters.

    Deterministic, and each turn's text stays the same as later turns are added for as long as all fits, so that a
    server's prefix cache holds. When it does not fit, results are cut, oldest first; when even that is too long, the
    oldest turns give way to one line that counts them. The last turn is always there.
    """
    if not turns:
        return "(empty)"
    limits = [budget] * len(turns)
    texts = [
        _render_turn(number, turn, limit) for number, (turn, limit) in enumerate(zip(turns, limits, strict=True), 1)
    ]
    for index, turn in enumerate(turns):
        excess = _length(texts) - budget
        if excess <= 0:
            break
        longest = min(budget, max((len(result.content) for result in turn.observations), default=0))
        count = max(1, len(turn.observations))
        limit = max(_SHORTEST_RESULT, longest - -(-excess // count))
        texts[index] = _render_turn(index + 1, turn, limit)
    dropped = 0
    while len(texts) > 1 and _length([_dropped(dropped), *texts] if dropped else texts) > budget:
        texts.pop(0)
        dropped += 1
    if dropped:
        texts.insert(0, _dropped(dropped))
    return cut("\n\n".join(texts), budget)


def _dropped(count: int) -> str:
    return f"({count} earlier turns left out)"


def _length(texts: Sequence[str]) -> int:
    return sum(map(len, texts)) + 2 * (len(texts) - 1)


def _render_turn(number: int, turn: Turn, limit: int) -> str:
    lines = [f"Turn {number}"]
    if turn.plan:
        lines += [f"Sub-goal: {turn.plan.sub_goal}", f"Tool: {turn.plan.tool}"]
    lines += [line for result in turn.observations for line in _render_observation(result, limit)]
    lines += [f"Error in {fault.module}: {cut(fault.message, limit)}" for fault in turn.faults]
    if turn.verdict and not turn.verdict.stop and turn.verdict.analysis:
        lines.append(f"Missing: {turn.verdict.analysis}")
    return "\n".join(lines)


def _render_observation(result: Observation, limit: int) -> list[str]:
    arguments = "\n".join(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in result.arguments.values()
    )
    label = {"ok": "Result", "error": "Error", "timeout": "Timeout"}[result.status]
    return [f"Call: {cut(arguments, min(limit, 600))}", f"{label}: {cut(result.content, limit)}"]
