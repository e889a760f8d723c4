"""Files of every kind, whole, damaged and hostile."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.errors import ConfigError
from graph.trace import Trajectory
from graph.traces.foreign.files import MOST_BYTES
from graph.traces.foreign.reader import Format, format_of, read_any
from graph.traces.foreign.record import LeftOut
from graph.traces.jsonl import JsonlWriter
from graph.traces.parquet_folder import ParquetFolder
from graph.traces.reading import Damage

SAMPLES = Path(__file__).parent / "samples"
QA = {"question": "q", "answer": "a"}


def read(path: Path, wanted: Format | None = None) -> tuple[list[Trajectory], list[Damage]]:
    damages: list[Damage] = []
    return list(read_any(path, wanted, damages.append, LeftOut())), damages


def written(tmp_path: Path, name: str, data: bytes | str) -> Path:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_a_folder_is_read_in_order_whatever_it_holds():
    found, damages = read(SAMPLES)
    assert damages == []
    assert [run.answer for run in found] == [
        *("42", "9", "Paris.", "Madrid.", "Hello!", "Blue."),
        *("Danube", "Danube", "Inn", None, "Danube"),
    ]
    assert len({run.id for run in found}) == len(found)
    for run in found:
        assert Trajectory.model_validate_json(run.model_dump_json(), strict=True) == run


def test_only_one_format_is_wanted():
    found, damages = read(SAMPLES, "chat")
    assert len(found) == 6
    assert {damage.kind for damage in damages} == {"format"}
    assert damages[0].why.startswith("it is not a question with its answer; its fields are pid, query, image")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.json", json.dumps(QA)),
        ("a.json", json.dumps(QA, indent=2)),
        ("a.json", json.dumps([QA, QA], indent=2)),
        ("a.json", json.dumps([QA])),
        ("a.json", json.dumps(QA) + "\n" + json.dumps(QA)),
        ("a.jsonl", json.dumps(QA) + "\n\n \n" + json.dumps(QA) + "\n"),
        ("a.jsonl", ("\ufeff" + json.dumps(QA) + "\r\n").encode()),
        ("a.txt", json.dumps(QA)),
    ],
)
def test_ways_to_write_json(tmp_path: Path, name: str, data: str | bytes):
    found, damages = read(written(tmp_path, name, data))
    assert damages == []
    assert {(run.question, run.answer) for run in found} == {("q", "a")}


def test_the_messages_of_one_conversation_are_no_records(tmp_path: Path):
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    for indent in (None, 2):
        found, damages = read(written(tmp_path, "a.json", json.dumps(messages, indent=indent)))
        assert (len(found), damages) == (1, [])


def test_damaged_lines_are_skipped_and_named(tmp_path: Path):
    lines = [
        b"\xff\xfe",
        b"{",
        b"[" * 100_000,
        b'{"question": ' + b"9" * 5000 + b"}",
        b"5",
        b"{}",
        b'{"text": "a"}',
        b'{"question": "q", "answer": ""}',
        json.dumps(QA).encode(),
        b'{"question": "q", "answ',
    ]
    path = written(tmp_path, "a.jsonl", b"\n".join(lines))
    found, damages = read(path)
    assert len(found) == 1
    assert [damage.where for damage in damages] == [f"{path}, line {n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 10)]
    assert [damage.kind for damage in damages] == [*["json_invalid"] * 4, *["format"] * 4, "torn"]
    assert all(damage.why.endswith(".") for damage in damages)
    assert damages[6].why.endswith("its fields are text.")


def test_items_of_an_array_are_named(tmp_path: Path):
    path = written(tmp_path, "a.json", json.dumps([QA, 3, QA | {"answer": None}], indent=1))
    found, damages = read(path)
    assert len(found) == 1
    assert [damage.where for damage in damages] == [f"{path}, item 2", f"{path}, item 3"]


def test_a_file_that_is_no_json(tmp_path: Path):
    for data in (b"\xff\xfea\x00", b"hello\nworld", b"\x00" * 100, b'{\n"a": [}'):
        path = written(tmp_path, "a.json", data)
        found, damages = read(path)
        assert (found, [damage.where for damage in damages]) == ([], [str(path)])
    assert read(written(tmp_path, "a.json", b"")) == ([], [])


def test_one_value_of_more_than_a_gigabyte_is_refused(tmp_path: Path):
    path = written(tmp_path, "a.json", "[\n")
    os.truncate(path, MOST_BYTES + 1)
    assert [damage.kind for damage in read(path)[1]] == ["too_large"]


def test_a_folder_with_everything_in_it(tmp_path: Path):
    (tmp_path / "b").mkdir()
    written(tmp_path / "b", "1.json", json.dumps(QA | {"answer": "second"}))
    written(tmp_path, "a.jsonl", json.dumps(QA | {"answer": "first"}))
    written(tmp_path, ".hidden.json", "{")
    written(tmp_path, "notes.txt", "not to be read")
    (tmp_path / "c").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    found, damages = read(tmp_path)
    assert [run.answer for run in found] == ["first", "second"]
    assert damages == []


def test_no_such_path(tmp_path: Path):
    with pytest.raises(ConfigError, match="There is no"):
        read(tmp_path / "a")


def test_own_traces_come_as_they_are(tmp_path: Path):
    own = read(SAMPLES)[0]
    with JsonlWriter(tmp_path / "own.jsonl") as jsonl, ParquetFolder(tmp_path / "columns") as folder:
        for run in own:
            jsonl.write(run.model_dump_json())
            folder.write(run)
    one = written(tmp_path, "one.json", own[0].model_dump_json(indent=2))
    assert read(tmp_path / "own.jsonl") == (own, [])
    assert read(tmp_path / "columns") == (own, [])
    assert read(one) == (own[:1], [])
    found, damages = read(tmp_path / "columns", "chat")
    assert (found, [damage.kind for damage in damages]) == ([], ["format"])
    newer = written(tmp_path, "newer.jsonl", own[0].model_dump_json().replace(":1,", ":2,", 1))
    assert [damage.kind for damage in read(newer)[1]] == ["version"]


def test_a_damaged_parquet_file_does_not_stop_the_rest(tmp_path: Path):
    written(tmp_path, "a.parquet", b"PAR1 not really")
    written(tmp_path, "b.jsonl", json.dumps(QA))
    found, damages = read(tmp_path)
    assert (len(found), [damage.kind for damage in damages]) == (1, ["unreadable"])


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    yield at
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from places(inner, (*at, key))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """Return the value with another at a place."""
    if not at:
        return new
    copy = value.copy()
    copy[at[0]] = put(value[at[0]], at[1:], new)
    return copy


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


GOOD = [
    *(json.loads(path.read_text()) for path in sorted(SAMPLES.rglob("*.json"))),
    *map(json.loads, (SAMPLES / "chat.jsonl").read_text().splitlines()),
    {**QA, "created": 1, "rating": 1, "thumb": "up", "conversation_id": "c", "reference": ["a"], "id": 1},
    {"query": "q", "memory": {"Action Step 1": {}}, "verifier_1_system_prompt": "s", "verifier_1_prompt": "p"},
]
NASTY = [
    *(
        "\x00",
        "\ud83d",
        "\udcff",
        "",
        " ",
        "None",
        "Conclusion: STOP",
        "a='b'",
        "{" * 2000,
        "(" * 2000,
        "{'Action Step 1': {}}",
    ),
    *(10**400, -(10**30), float("nan"), float("inf"), -0.0, 1e308, True, None, deep(90), {"error": "e"}, {"error": {}}),
    *({"Action Step 1": 5}, {"Action Step 999999": {"tool_name": []}}, [[]], [{}], {"": ""}, {"role": "user"}),
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.sampled_from(NASTY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_any_value_at_any_place_is_read_or_reported(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    good = data.draw(st.sampled_from(GOOD))
    at = data.draw(st.sampled_from(list(places(good))))
    record = put(good, at, data.draw(ANYTHING))
    path = tmp_path_factory.getbasetemp() / "hostile.jsonl"
    path.write_text(json.dumps(record) + "\n" + json.dumps(QA) + "\n", encoding="utf-8")
    found, damages = read(path)
    assert (found[-1].question, found[-1].answer) == ("q", "a"), "the rest is read"
    assert len(found) > 1 or damages or record == []
    for run in found:
        assert Trajectory.model_validate_json(run.model_dump_json(), strict=True) == run


@given(ANYTHING)
@settings(deadline=None)
def test_the_format_of_anything(value: Any):
    assert format_of(value) in {None, "agentflow", "original", "chat"}
