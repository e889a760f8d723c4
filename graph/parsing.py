"""Reading what a model wrote without constrained decoding.

Nothing is guessed from words in prose: a value is taken from a JSON object, from a labelled line, or not at all.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import json_repair
from pydantic import BaseModel, ValidationError

from graph.errors import FormatError

T = TypeVar("T", bound=BaseModel)

_ALIASES = {"toolname": "tool", "stopsignal": "stop", "finalanswer": "answer", "conclusion": "stop"}
_FILLER = frozenset(
    {"tool", "tools", "the", "use", "using", "coder", "code", "function", "interpreter", "api", "call", "search"}
)
_THOUGHT = re.compile(r"</think(?:ing)?>")


def parse(text: str, model: type[T]) -> T:
    """Return the `model` that `text` holds, as a JSON object (fenced or not, repaired if need be) or as labelled lines.

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


def parse_arguments(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return one call's arguments, from an object with any of the schema's properties or from labelled lines.

    Raises:
        FormatError: nothing in the text fits.
    """
    properties = schema.get("properties", {})
    for body in dict.fromkeys((_after_thought(text), text)):
        for found in (*_json_objects(body), _labelled(body, list(properties))):
            for candidate in (found, found.get("arguments"), found.get("args")):
                if isinstance(candidate, dict) and set(candidate) & set(properties):
                    return candidate
    raise FormatError(f'The call could not be read. Reply with {{"calls": [{{{", ".join(map(repr, properties))}}}]}}.')


def resolve_tool(name: str, offered: Sequence[str]) -> str | None:
    """Return the one offered tool that `name` means, or None where it means none or more than one.

    Case, quotes, backticks, final punctuation, spaces, hyphens and underscores do not matter; words such as "tool" may
    be added.
    """
    if name in offered:
        return name
    words = _words(name)
    same = [tool for tool in offered if _words(tool) == words]
    if not same:
        same = [tool for tool in offered if "".join(_words(tool)) == "".join(words)]
    if not same:
        same = [
            tool for tool in offered if set(_words(tool)) < set(words) and set(words) - set(_words(tool)) <= _FILLER
        ]
        same = [tool for tool in same if not any(set(_words(tool)) < set(_words(other)) for other in same)]
    return same[0] if len(same) == 1 else None


def code_blocks(text: str, *, language: str = "python") -> list[str]:
    """Return the contents of the fenced code blocks, or the whole text when it has no fence.

    A block ends at the first closing fence that leaves code which parses, so that a fence inside a string literal does
    not cut it; where none does, at the first. An unclosed block runs to the end. Blocks of another language are left
    out.
    """
    blocks: list[str] = []
    lines = _after_thought(text).splitlines()
    at = 0
    fenced = False
    while at < len(lines):
        opening = re.fullmatch(r"\s*(`{3,}|~{3,})\s*([\w+-]*)\s*", lines[at])
        if not opening:
            at += 1
            continue
        fenced = True
        fence, tag = opening.groups()
        closings = [i for i in range(at + 1, len(lines)) if re.fullmatch(rf"\s*{re.escape(fence)}\s*", lines[i])]
        closings = closings or [len(lines)]
        end = next((i for i in closings if _is_code("\n".join(lines[at + 1 : i]))), closings[0])
        if tag.lower() in {language, "py", ""} and (block := "\n".join(lines[at + 1 : end])).strip():
            blocks.append(block)
        at = end + 1
    if not fenced and (whole := _after_thought(text).strip()):
        return [whole]
    return blocks


def _is_code(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return re.findall(r"[a-z0-9]+", spaced.lower())


def _after_thought(text: str) -> str:
    """Drop a leading `<think>…</think>` block, or everything up to a closing tag whose opening the template wrote."""
    ends = list(_THOUGHT.finditer(text))
    if ends and text[ends[-1].end() :].strip():
        return text[ends[-1].end() :]
    return text


def _objects(text: str, model: type[BaseModel]) -> Iterator[Mapping[str, Any]]:
    """Yield the candidates in the order of trust: exact JSON, repaired JSON, labelled lines."""
    for body in dict.fromkeys((_after_thought(text), text)):
        yield from _json_objects(body)
        if labelled := _labelled(body, list(model.model_fields)):
            yield labelled


def _json_objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(strict=False)
    start = at = text.find("{")
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield found
        at = text.find("{", end)
    if start >= 0:
        try:
            repaired = json_repair.loads(text[start:], skip_json_loads=True)
        except (ValueError, RecursionError):
            return
        yield from (
            found for found in (repaired if isinstance(repaired, list) else [repaired]) if isinstance(found, dict)
        )


def _labelled(text: str, fields: Sequence[str]) -> dict[str, str]:
    """Read `Sub-Goal: …` sections, in any markup of the label; a value runs to the next label."""
    names = {re.sub(r"[^a-z]", "", name): name for name in fields}
    names |= {alias: name for alias, name in _ALIASES.items() if name in fields}
    if not names:
        return {}
    patterns = "|".join(sorted((r"[\s_-]*".join(name) for name in names), key=len, reverse=True))
    label = re.compile(rf"^[#>*\-\s\d.]*({patterns})[*\s]*:[*\s]*", re.IGNORECASE | re.MULTILINE)
    found = list(label.finditer(text))
    values: dict[str, str] = {}
    for match, following in zip(found, [*found[1:], None], strict=True):
        key = names[re.sub(r"[^a-z]", "", match.group(1).lower())]
        values[key] = text[match.end() : following.start() if following else len(text)].strip()
    return values


def _known(found: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Bring keys to the model's spelling and drop those it does not have."""
    names = {re.sub(r"[^a-z]", "", name): name for name in model.model_fields}
    known: dict[str, Any] = {}
    for key, value in found.items():
        plain = re.sub(r"[^a-z]", "", str(key).lower())
        name = names.get(plain) or names.get(_ALIASES.get(plain, ""))
        if name and name not in known:
            known[name] = value
    return known
