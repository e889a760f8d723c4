import json
from pathlib import Path

import pytest

from graph.errors import ConfigError, StorageError
from tests.command import Workplace
from tests.unit.agentflow.conftest import Call


@pytest.fixture
def folder(place: Workplace) -> Path:
    folder = place.directory / "notes"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\nGreen tea is brewed at 80 degrees.\x1b[31m\n")
    (folder / "bad.txt").write_bytes(b"\xff\xfe")
    return folder


def test_build_then_search(call: Call, folder: Path):
    output = call("corpus", "build", str(folder))
    assert "skipped bad.txt: not UTF-8 text" in output
    assert ".agentflow/corpus.db: 1 documents; files: 2 new" in output
    assert 'set tools.search_corpus.path = ".agentflow/corpus.db"' in output
    found = call("corpus", "search", "temperature of green tea", "--corpus", ".agentflow/corpus.db")
    assert "1. Tea (tea.md)" in found
    assert "80 degrees" in found
    assert "\x1b" not in found
    as_json = call("corpus", "search", "green tea", "--json", "--set", "tools.search_corpus.path=.agentflow/corpus.db")
    assert json.loads(as_json)["title"] == "Tea"


def test_the_configured_index_is_the_default(call: Call, folder: Path, place: Workplace):
    configured = ("--set", "tools.search_corpus.path=own.db")
    assert "set tools.search_corpus.path" not in call("corpus", "build", str(folder), *configured)
    assert (place.directory / "own.db").is_file()
    assert "No document of own.db" in call("corpus", "search", "zebra", *configured)
    again = call("corpus", "build", str(folder), *configured)
    assert "2 unchanged" in again


def test_what_is_not_there(call: Call, place: Workplace):
    with pytest.raises(ConfigError, match="nowhere is not a folder"):
        call("corpus", "build", "nowhere")
    with pytest.raises(StorageError, match="There is no corpus index at"):
        call("corpus", "search", "tea")
