"""The published JSON Schema is the one in force, and says what the models say."""

import json

import pytest

from graph.trace import Trajectory
from graph.traces.schema import schema, schema_text
from tests.any_trajectory import realistic
from tests.command import REPOSITORY


def test_the_published_file_is_up_to_date():
    published = (REPOSITORY / "docs" / "trajectory.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "agentflow traces schema > docs/trajectory.schema.json"


def test_every_field_is_explained_in_the_docs():
    text = (REPOSITORY / "docs" / "traces.md").read_text(encoding="utf-8")
    found = schema()
    fields = {name for part in (found, *found["$defs"].values()) for name in part.get("properties", {})}
    missing = sorted(name for name in fields if f"`{name}`" not in text)
    assert missing == []


def test_other_programs_can_check_with_it():
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator(schema())
    whole = json.loads(realistic(1).model_dump_json())
    assert list(checker.iter_errors(whole)) == []
    assert list(checker.iter_errors(json.loads(Trajectory(id="a", question="q").model_dump_json()))) == []
    for change in ({"schema_version": 2}, {"unknown": 1}, {"id": ""}, {"source": "elsewhere"}, {"turns": None}):
        assert list(checker.iter_errors(whole | change)), change
