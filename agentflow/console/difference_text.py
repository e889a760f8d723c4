"""What two trajectories differ in, in words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentflow.console.story import call_text
from agentflow.console.text import clean, one_line
from graph.traces.difference import Difference, Point
from graph.traces.planner_difference import PlannerDifference, first_difference
from graph.traces.steps import Kind

NOTHING = "(nothing)"
_NAMES: Mapping[Kind, str] = {"results": "results of the calls", "command": "call", "end": "ending"}
_EXCERPT_CHARS, _BEFORE_CHARS = 700, 100


def place_name(kind: Kind, turn: int) -> str:
    """Return the name of a step, such as `the plan of turn 2`."""
    name = _NAMES.get(kind, kind)
    return f"the {name} of turn {turn + 1}" if turn >= 0 else f"the {name}"


def same_so_far(found: Difference) -> str:
    """Name what is the same before the two part."""
    point = found.first
    parts = ["the question"]
    if found.analysed and (point is None or point.kind != "analysis"):
        parts.append("the analysis")
    if found.equal_turns:
        parts.append("turn 1" if found.equal_turns == 1 else f"turns 1 to {found.equal_turns}")
    if in_turns := point if point and point.turn >= 0 else found.first_in_turns:
        order: tuple[Kind, ...] = ("plan", "command", "results", "verdict")
        names = [_NAMES.get(kind, kind) for kind in order[: order.index(in_turns.kind)]]
        parts += [f"the {' and the '.join(names)} of turn {in_turns.turn + 1}"] if names else []
    elif point is None or point.kind == "end":
        parts.append("the answer")
    return ", ".join(parts)


def both_sides(point: Point, *, whole: bool) -> tuple[str, str]:
    """Return what each has at a point; long texts from shortly before their first difference on, unless `whole`."""
    one, other = _text(point.kind, point.a, point.b), _text(point.kind, point.b, point.a)
    place = first_difference(one, other) or 0
    return (one, other) if whole else (_excerpt(one, place), _excerpt(other, place))


def later(steps: Sequence[tuple[Kind, int]]) -> str:
    """Name the steps that differ further on, by turn."""
    by_turn: dict[int, list[str]] = {}
    alone = []
    for kind, turn in steps:
        name = _NAMES.get(kind, kind)
        if turn < 0:
            alone.append(f"the {name}")
        else:
            by_turn.setdefault(turn, []).append(name)
    return "; ".join([*(f"turn {turn + 1}: {', '.join(names)}" for turn, names in by_turn.items()), *alone])


def planner_lines(found: PlannerDifference) -> Iterator[str]:
    """Say where the planner's calls part: in what it was shown, or in what was sampled."""
    if found.same_prompt is None:
        yield "the prompts were not recorded in both"
    elif found.same_prompt:
        by = {"ids": "the same token ids", "hash": "the same hash", "messages": "the same messages"}
        same = f"same prompt ({by[found.prompt_by or 'ids']})"
        yield same if found.same_sample else f"{same}, different sample"
    else:
        where = "" if found.prompt_position is None else f", from token {found.prompt_position} on"
        yield f"the prompts differ already{where}"
        if found.same_messages:
            yield "the messages are the same, so tokenizer or chat template are not"
    if found.position is None:
        yield "the samples are the same"
    elif found.sample_by == "text":
        yield f"the texts differ from character {found.position} on; token ids were not recorded in both"
    else:
        a, b = (_token(token, logprob) for token, logprob in zip(found.ids, found.logprobs, strict=True))
        yield f"the samples differ from token {found.position} on: A {a}, B {b}"


def value_text(value: Any) -> str:
    """Return a setting's value."""
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _token(token: int | None, logprob: float | None) -> str:
    if token is None:
        return "has ended"
    return f"id {token}" + ("" if logprob is None else f" (log-probability {logprob:.4f})")


def _text(kind: Kind, value: Any, other: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, Mapping) and "unusable" in value:
        return "\n".join(f"the output could not be used: {clean(message)}" for message in value["unusable"])
    match kind:
        case "analysis":
            known = other if isinstance(other, Mapping) else {}
            return "\n".join(f"{name}: {value_text(v)}" for name, v in value.items() if known.get(name) != v)
        case "plan":
            return f"{one_line(value['sub_goal'])} → {one_line(value['tool'])}"
        case "command":
            return "\n".join(call_text(one_line(value["tool"]), arguments) for arguments in value["calls"])
        case "results":
            return "\n".join(_results(value, other or []))
        case "verdict":
            return "enough to answer" if value["stop"] else "go on"
        case "end":
            return " · ".join(one_line(str(part)) for part in (value["stop"] or "unknown", value["error"]) if part)
        case _:
            return clean(str(value))


def _results(mine: Sequence[Any], theirs: Sequence[Any]) -> Iterator[str]:
    """Yield the results that the other has not in the same place."""
    for number, result in enumerate(mine):
        if number < len(theirs) and theirs[number] == result:
            continue
        of = f" of call {number + 1}" if len(mine) > 1 else ""
        status = {"ok": "result", "error": "error", "timeout": "timeout"}[result["status"]]
        yield f"{status}{of}: {clean(result['content'])}"
        if number < len(theirs) and theirs[number]["arguments"] != result["arguments"]:
            yield f"run as {call_text(one_line(result['tool']), result['arguments'])}"


def _excerpt(text: str, place: int) -> str:
    start = max(0, place - _BEFORE_CHARS) if len(text) > _EXCERPT_CHARS else 0
    end = start + _EXCERPT_CHARS
    return f"{'… ' if start else ''}{text[start:end]}{' …' if end < len(text) else ''}"
