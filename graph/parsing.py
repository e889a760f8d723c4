"""Reading what a model wrote without constrained decoding.

Nothing is guessed from words in prose: a value is taken from a JSON object, from a labelled line, or not at all.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import json_repair
from pydantic import BaseModel, ValidationError

from graph.errors import FormatError
from graph.plain import plain_json, plain_text
from graph.thought import after_thought

T = TypeVar("T", bound=BaseModel)

_ALIASES = {"toolname": "tool", "stopsignal": "stop", "finalanswer": "answer"}
_THOUGHT = re.compile(r"<think(ing)?>.*?</think(?(1)ing)>", re.DOTALL)
_ARGUMENTS = ("arguments", "args", "parameters", "input")
"""Where other formats for tool calls put what we call the call."""


def parse(text: str, model: type[T]) -> T:
    """Return the `model` that `text` holds, as a JSON object (fenced or not, repaired if need be) or as labelled lines.

    Of several objects that fit, the last counts: models repeat an earlier one before they write their own.

    Raises:
        FormatError: nothing in the text fits; the message names what is missing.
    """
    problem = "no JSON object in the output"
    for found in _objects(text, model):
        try:
            return model.model_validate(_known(found, model))
        except ValidationError as error:
            first = error.errors()[0]
            problem = f"{'.'.join(map(str, first['loc'])) or 'output'}: {first['msg']}"
    raise FormatError(f"The {model.__name__.lower()} could not be read: {problem}.")


def parse_calls(text: str, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the argument objects of one or more calls of a tool.

    They are `{"calls": [...]}`, or objects with any of the schema's properties, alone or in the shapes that other
    formats for tool calls have, or labelled lines.

    Raises:
        FormatError: nothing in the text fits.
    """
    properties = list(schema.get("properties", {}))
    for body in _bodies(text):
        for found in _latest(body):
            if "calls" in found and "calls" not in properties:
                listed = found["calls"] if isinstance(found["calls"], list) else [found["calls"]]
                calls = [_unwrap(call, properties) for call in listed if isinstance(call, dict)]
                if len(calls) == len(listed):
                    return [plain_json(call) for call in calls]
        bare: list[dict[str, Any]] = []
        for found in _json_objects(body):
            if set(call := _unwrap(found, properties)) & set(properties) and call not in bare:
                bare.append(call)
        labelled = _labelled(body, properties)
        if bare or labelled:
            return [plain_json(call) for call in bare or [labelled]]
    shape = ", ".join(f'"{name}": …' for name in properties)
    raise FormatError(f'The call could not be read. Reply with {{"calls": [{{{shape}}}]}}.')


def _unwrap(call: Mapping[str, Any], properties: Sequence[str]) -> dict[str, Any]:
    """Return the arguments inside a call that is written as `{"name": …, "arguments": {…}}`."""
    if not set(call) & set(properties):
        for inner in (call[name] for name in _ARGUMENTS if name in call):
            if isinstance(inner, str):
                inner = next(_json_objects(inner), None)
            if isinstance(inner, dict):
                return inner
    return dict(call)


def _bodies(text: str) -> Iterator[str]:
    """Yield what lies outside of thoughts, then what comes after the last, then the whole text."""
    yield from dict.fromkeys((_THOUGHT.sub("", after_thought(text)), after_thought(text), text))


def _objects(text: str, model: type[BaseModel]) -> Iterator[Mapping[str, Any]]:
    """Yield the candidates in the order of trust: JSON objects and what they wrap, the last first; labelled lines."""
    for body in _bodies(text):
        for outer in _latest(body):
            yield outer
            yield from (inner for inner in reversed(outer.values()) if isinstance(inner, dict))
        if labelled := _labelled(body, list(model.model_fields)):
            yield labelled


def _latest(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a text, the last first; those found by repair before what lies within them."""
    before, repaired, within = _sorted_objects(text)
    for found in (repaired, within, before):
        yield from reversed(found)


def _json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a text in their order."""
    for found in _sorted_objects(text):
        yield from found


def _sorted_objects(text: str) -> tuple[list[dict[str, Any]], ...]:
    """Return a text's objects: those before the first brace that opens no valid one, those that repair finds from there
    on, and the valid ones after it. A brace inside a broken object is part of a string as often as not."""
    decoder = json.JSONDecoder(strict=False)
    before: list[dict[str, Any]] = []
    repaired: list[dict[str, Any]] | None = None
    within: list[dict[str, Any]] = []
    at = text.find("{")
    while at >= 0:
        end = at + 1
        try:
            found, end = decoder.raw_decode(text, at)
            (before if repaired is None else within).append(found)
        except (ValueError, RecursionError):
            if repaired is None:
                repaired = list(_repaired(text[at:]))
        at = text.find("{", end)
    return before, repaired or [], within


def _repaired(text: str) -> Iterator[dict[str, Any]]:
    try:
        found = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return
    yield from (item for item in (found if isinstance(found, list) else [found]) if isinstance(item, dict))


def _labelled(text: str, fields: Sequence[str]) -> dict[str, str]:
    """Read `Sub-Goal: …` sections, in any markup of the label; a value runs to the next label."""
    names = {re.sub(r"[^a-z]", "", name.lower()): name for name in fields}
    names |= {alias: name for alias, name in _ALIASES.items() if name in fields}
    names.pop("", None)
    if not names:
        return {}
    spellings = "|".join(sorted((r"[\s_-]*".join(name) for name in names), key=len, reverse=True))
    # Possessive, and within its line: models that fail write thousands of blanks and line ends.
    bullet = r"^[#>\-\d. \t]*+(?:\*[ \t]+)?"
    # Emphasis is part of the label only where it is closed around it: a value may begin with asterisks of its own.
    inline = rf"{bullet}(?P<mark>\*{{0,3}}|_{{0,2}})(?P<inline>{spellings})(?:(?P=mark)\s*:|\s*:(?P=mark))[ \t]*"
    heading = rf"^#{{1,6}}[ \t]*(?P<strong>\*{{0,3}})(?P<heading>{spellings})(?P=strong)[ \t]*$"
    found = list(re.finditer(f"{inline}|{heading}", text, re.IGNORECASE | re.MULTILINE))
    ends = [match.start() for match in found[1:]] + [len(text)]
    values: dict[str, str] = {}
    for match, end in zip(found, ends, strict=False):
        label = match["inline"] or match["heading"]
        values[names[re.sub(r"[^a-z]", "", label.lower())]] = text[match.end() : end].strip()
    return values


def _known(found: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Bring keys to the model's spelling, drop those it does not have and nulls, and make text of what should be."""
    names = {re.sub(r"[^a-z]", "", name): name for name in model.model_fields}
    known: dict[str, Any] = {}
    for key, value in found.items():
        plain = re.sub(r"[^a-z]", "", str(key).lower())
        name = names.get(plain) or names.get(_ALIASES.get(plain, ""))
        if name and name not in known and value is not None:
            known[name] = _shaped(plain_json(value), model.model_fields[name].annotation)
    return known


def _shaped(value: Any, annotation: Any) -> Any:
    """Give `42` and `["a", "b"]` for a text, and a text for a list of words, the shape that was asked for."""
    if annotation in (str, str | None):
        if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
            return ", ".join(_as_text(item) for item in value)
        return _as_text(value)
    if annotation == tuple[str, ...]:
        words = re.split(r"[,;\n]", value) if isinstance(value, str) else value
        return [plain_text(str(word)).strip() for word in words] if isinstance(words, list) else value
    return value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
