"""What constrains decoding."""

import json
from typing import Any

import pytest

from graph.nodes.executor import read_command
from graph.parsing import parse
from graph.records import Answer, Exchange, Plan, QueryAnalysis, Turn, Verdict
from graph.schemas import schema_for
from graph.state import FlowState, Request, Setup, ToolDescription

NOTE = ToolDescription(
    name="note",
    description="d",
    arguments={
        "type": "object",
        "properties": {"text": {"type": "string"}, "more": {"$ref": "#/$defs/More"}},
        "$defs": {"More": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "required": ["text"],
    },
)
OLD = ToolDescription(
    name="old",
    description="d",
    arguments={"properties": {"m": {"$ref": "#/definitions/M"}}, "definitions": {"M": {"type": "string"}}},
)
PYTHON = ToolDescription(name="python", description="d", code_argument="code")


def make_state(tool: str = "note", *, history: bool = False) -> FlowState:
    earlier = (Exchange(question="q", answer="a"),) if history else ()
    return {
        "request": Request(question="q", history=earlier),
        "setup": Setup(tools=(NOTE, OLD, PYTHON)),
        "turns": [Turn(plan=Plan(sub_goal="s", tool=tool))],
    }


def walk(schema: Any):
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from walk(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from walk(value)


def test_tool_names_are_an_enum():
    state = make_state()
    assert schema_for("planner", state, 0)["properties"]["tool"]["enum"] == ["note", "old", "python"]
    assert schema_for("analyzer", state, -1)["properties"]["tools"]["items"]["enum"] == ["note", "old", "python"]


@pytest.mark.parametrize("role", ["analyzer", "planner", "verifier", "generator"])
def test_every_string_is_bounded_and_every_field_required(role):
    """A small model that may write without end does."""
    for part in walk(schema_for(role, make_state(history=True), 0)):
        if part.get("type") == "string":
            assert "maxLength" in part or "enum" in part
        if part.get("type") == "object":
            assert part["required"] == list(part["properties"])
            assert part["additionalProperties"] is False


def test_thinking_comes_before_deciding():
    assert list(schema_for("planner", make_state(), 0)["properties"])[-1] == "tool"
    assert list(schema_for("verifier", make_state(), 0)["properties"]) == ["analysis", "stop"]
    assert list(schema_for("generator", make_state(), 0)["properties"]) == ["solution", "answer"]


def test_only_a_follow_up_is_rewritten():
    assert "question" not in schema_for("analyzer", make_state(), -1)["properties"]
    assert next(iter(schema_for("analyzer", make_state(history=True), -1)["properties"])) == "question"


def test_arguments_are_the_tools_with_what_they_refer_to_at_the_root():
    schema = schema_for("executor", make_state(), 0)
    calls = schema["properties"]["calls"]
    assert (calls["minItems"], calls["maxItems"]) == (1, 4)
    assert calls["items"]["required"] == ["text"]
    assert "$defs" not in calls["items"]
    assert schema["$defs"]["More"]["properties"] == {"n": {"type": "integer"}}
    assert schema_for("executor", make_state("old"), 0)["definitions"] == {"M": {"type": "string"}}


def test_code_is_free_text():
    assert schema_for("executor", make_state("python"), 0) is None


@pytest.mark.parametrize(
    ("role", "value", "record"),
    [
        ("planner", {"justification": "", "context": "", "sub_goal": "s", "tool": "note"}, Plan),
        ("verifier", {"analysis": "", "stop": True}, Verdict),
        ("generator", {"solution": "", "answer": "a"}, Answer),
        ("analyzer", {"summary": "", "skills": "", "tools": ["note"], "considerations": ""}, QueryAnalysis),
    ],
)
def test_what_a_schema_allows_is_what_the_parser_reads(role, value, record):
    assert set(schema_for(role, make_state(), 0)["properties"]) == set(value)
    assert parse(json.dumps(value), record) == record.model_validate(value)


def test_a_constrained_command_is_read():
    calls = [{"text": "a"}, {"text": "b", "more": {"n": 1}}]
    assert read_command(json.dumps({"calls": calls}), NOTE).calls == tuple(calls)


def test_a_role_without_output_is_a_programming_error():
    with pytest.raises(KeyError):
        schema_for("nobody", make_state(), 0)
