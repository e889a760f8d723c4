"""Reads what the modules of the original AgentFlow said, as its files hold it: as JSON, as a pydantic object's text,
or as labelled lines. Nothing is guessed from words in prose."""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from graph.plain import plain_json, plain_text
from graph.records import QueryAnalysis, Verdict

T = TypeVar("T", bound=BaseModel)

_LONGEST = 60_000
"""Longer texts are not searched for structure: no module may say so much."""
_STRING = r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
_FIELD = re.compile(rf"\s*(\w+)=({_STRING}|True|False|None|-?[\d.]{{1,20}}|\[[^\[\]]*+\])(?=\s|$)", re.DOTALL)
_CONCLUSION = re.compile(r"^(?:[^\w\n]|_)*+conclusion\b[\W_]*+(.*)$", re.IGNORECASE | re.MULTILINE)
_STOP_OR_CONTINUE = re.compile(r"(stop|continue)[\W_]*", re.IGNORECASE)
_TOOL_ENTRY = re.compile(r"^[^\w\n]*+(?:\d{1,2}[^\w\n]++)?([A-Z]\w*_Tool)\b", re.MULTILINE)


class _Output(BaseModel):
    model_config = ConfigDict(extra="ignore")


class NextStep(_Output):
    """What the planner said."""

    justification: str = ""
    context: str = ""
    sub_goal: str
    tool_name: str


class ToolCommand(_Output):
    """What the executor said."""

    command: str


class _Verification(_Output):
    analysis: str = ""
    stop_signal: bool


class _Analysis(_Output):
    concise_summary: str
    required_skills: str = ""
    relevant_tools: str = ""
    additional_considerations: str = ""


def read_next_step(text: str) -> NextStep | None:
    """Return the plan that a text holds; None where it holds none."""
    found = _read(text, NextStep)
    if found is None:
        return None
    return found.model_copy(update={"tool_name": found.tool_name.strip().split("\n")[0].strip("`*\"' \t.")})


def read_command(text: str) -> str | None:
    """Return the command that a text holds, without its fence; None where it holds none."""
    found = _read(text, ToolCommand)
    return None if found is None else re.sub(r"^```(?:python)?\s*|\s*```$", "", found.command.strip())


def read_verdict(text: str) -> Verdict | None:
    """Return the verdict that a text holds: its stop signal, or the last line that concludes; None without either."""
    if found := _read(text, _Verification):
        return Verdict(analysis=found.analysis, stop=found.stop_signal)
    concluded = _CONCLUSION.findall(text[-_LONGEST:])
    word = _STOP_OR_CONTINUE.fullmatch(concluded[-1]) if concluded else None
    return Verdict(analysis=plain_text(text), stop=word[1].lower() == "stop") if word else None


def read_analysis(text: str) -> QueryAnalysis:
    """Return the analysis by its parts, or the whole text as its summary."""
    found = _read(text, _Analysis)
    if found is None:
        return QueryAnalysis(summary=plain_text(text).strip())
    return QueryAnalysis(
        summary=found.concise_summary.strip(),
        skills=found.required_skills.strip(),
        tools=tuple(dict.fromkeys(_TOOL_ENTRY.findall(found.relevant_tools))),
        considerations=found.additional_considerations.strip(),
    )


def read_failure(value: Any) -> str | None:
    """Return the message of what the original's model clients return instead of text when a call failed."""
    if isinstance(value, Mapping) and isinstance(error := value.get("error"), str):
        message = value.get("message")
        return plain_text(f"{error}: {message}" if isinstance(message, str) else error)
    return None


def _read(text: str, model: type[T]) -> T | None:
    """Return the `model` that a text holds in the first of the three shapes that it has."""
    if len(text) > _LONGEST:
        return None
    fields = _json_object(text) or _printed(text) or _labelled(text, model)
    try:
        return model.model_validate(plain_json(fields))
    except ValidationError:
        return None


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _labelled(text: str, model: type[BaseModel]) -> dict[str, str]:
    """Read `**Sub-Goal:** …` sections; a value runs to the next label, and of two the later counts."""
    spellings = "|".join(name.replace("_", "[ _-]?") for name in model.model_fields)
    # Possessive: a line of blanks or marks is gone through once.
    label = re.compile(
        rf"^[ \t#*]*+(?:\d{{1,2}}\.[ \t*]*+)?({spellings})[ \t*]*+:[ \t*]*+", re.IGNORECASE | re.MULTILINE
    )
    found = list(label.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {
        re.sub(r"[ -]", "_", match[1].lower()): text[match.end() : end].strip()
        for match, end in zip(found, ends, strict=False)
    }


def _printed(text: str) -> dict[str, Any]:
    """Return the fields of `name='value' other=True`, as pydantic prints an object; none where that is not all."""
    fields: dict[str, Any] = {}
    at, text = 0, text.strip()
    while at < len(text):
        field = _FIELD.match(text, at)
        if field is None:
            return {}
        try:
            fields[field[1]] = ast.literal_eval(field[2])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return {}
        at = field.end()
    return fields
