"""`agentflow traces import`, into a real database."""

import json
import shutil
from pathlib import Path

import pytest

from graph.errors import ConfigError
from tests.command import Workplace
from tests.unit.agentflow.conftest import Call

SAMPLES = Path(__file__).parents[2] / "graph" / "traces" / "foreign" / "samples"
QA = {"question": "Who?", "answer": "\x1b[31mI."}


def listed(call: Call, *options: str) -> list[dict]:
    return [json.loads(line) for line in call("traces", "list", "--json", *options).splitlines()]


def write(place: Workplace, name: str, *lines: str) -> str:
    (place.directory / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return name


def test_importing_twice_adds_nothing(call: Call, place: Workplace):
    first = place.run("traces", "import", str(SAMPLES))
    assert first.stdout == "imported 11, already there 0, skipped 0\n"
    assert "system message (1)" in first.stderr
    assert call("traces", "import", str(SAMPLES)) == "imported 0, already there 11, skipped 0\n"
    rows = listed(call, "--source", "import")
    assert len(rows) == 11
    assert {row["answer"] for row in rows if row["reward"] == 1.0} == {"42", "Blue.", "Danube"}
    assert len(listed(call, "--tool", "Wikipedia_RAG_Search_Tool")) == 3


def test_tags_and_a_dataset(call: Call, place: Workplace):
    path = write(place, "a.jsonl", json.dumps({**QA, "id": 7}))
    call("traces", "import", path, "--tag", "old", "--tag", "log", "--dataset", "support")
    (row,) = listed(call, "--tag", "old", "--dataset", "support")
    shown = json.loads(call("traces", "show", row["id"], "--json"))
    assert (shown["tags"], shown["dataset"]) == (["origin:7", "old", "log"], "support")
    assert call("traces", "import", path) == "imported 0, already there 1, skipped 0\n"


def test_an_export_comes_back_whole(call: Call, place: Workplace):
    call("traces", "import", str(SAMPLES))
    call("traces", "export", "all.jsonl")
    call("traces", "export", "all")
    shutil.move(place.directory / ".agentflow", place.directory / "before")
    assert call("traces", "import", "all.jsonl") == "imported 11, already there 0, skipped 0\n"
    assert call("traces", "import", "all") == "imported 0, already there 11, skipped 0\n"
    call("traces", "export", "again.jsonl")
    # Without a time of its own a trajectory is as old as its import, so the order may differ.
    before, after = ((place.directory / name).read_text().splitlines() for name in ("all.jsonl", "again.jsonl"))
    assert sorted(before) == sorted(after)


def test_what_is_skipped_is_told_and_the_rest_imported(call: Call, place: Workplace):
    odd = json.dumps({"\x1b]0;evil\x07": 1})
    path = write(place, "a.jsonl", json.dumps(QA), odd, "{", json.dumps({"question": "q"}))
    done = place.run("traces", "import", path)
    assert (done.returncode, done.stdout) == (0, "imported 1, already there 0, skipped 3\n")
    assert "Skipped a.jsonl, line 3: it is no JSON" in done.stderr
    assert "\x1b" not in done.stderr
    counts = json.loads(call("traces", "import", path, "--json"))
    assert counts == {"imported": 0, "already_there": 1, "skipped": 3, "left_out": {}}


def test_standard_input(place: Workplace):
    done = place.run("traces", "import", "-", stdin=json.dumps([QA, 1], indent=1).encode())
    assert done.stdout == "imported 1, already there 0, skipped 1\n"
    assert "Skipped /dev/stdin, item 2: it is not" in done.stderr


def test_a_format_that_is_asked_for(call: Call, place: Workplace):
    path = write(place, "a.jsonl", json.dumps(QA), json.dumps({"query": "q", "direct_output": "a"}))
    assert call("traces", "import", path, "--format", "original") == "imported 1, already there 0, skipped 1\n"


def test_nothing_to_import(call: Call, place: Workplace):
    with pytest.raises(ConfigError, match="every record was skipped"):
        call("traces", "import", write(place, "a.jsonl", '{"text": "no question"}'))
    with pytest.raises(ConfigError, match="there are no traces in it"):
        call("traces", "import", write(place, "b.jsonl"))
    with pytest.raises(ConfigError, match="There is no missing"):
        call("traces", "import", "b.jsonl", "missing")
    assert not (place.directory / ".agentflow").exists()


def test_the_program_exits_with_2_and_a_sentence(place: Workplace):
    done = place.run("traces", "import", write(place, "a.jsonl", "{"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("Nothing was imported, as every record was skipped")
    assert "Traceback" not in done.stderr


def test_a_key_of_this_process_is_not_brought_in(place: Workplace):
    key = "tvly-planted-0123456789"
    path = write(place, "a.jsonl", json.dumps({"question": f"Is {key} mine?", "answer": f"{key} is."}))
    assert place.run("traces", "import", path, env={"TAVILY_API_KEY": key}).returncode == 0
    shown = place.run("traces", "show", "last", "--json").stdout
    assert (json.loads(shown)["question"], json.loads(shown)["answer"]) == ("Is [key] mine?", "[key] is.")
    stored = b"".join(file.read_bytes() for file in (place.directory / ".agentflow").iterdir())
    assert key.encode() not in stored
