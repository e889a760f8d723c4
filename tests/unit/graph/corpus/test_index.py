"""Building and searching an index."""

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph.corpus.document import Document
from graph.corpus.index import CorpusIndex, build_index
from graph.errors import StorageError

DOCUMENTS = [
    Document("1", "Mongolia: Capital", "name: Ulaanbaatar", "atlas"),
    Document("2", "Mongolia: Population", "total: 3,300,000", "atlas"),
    Document("3", "War and Peace", "A novel by the Russian author Leo Tolstoy.", "encyclopedia"),
    Document("4", "Peace of Westphalia", "Two peace treaties that ended a war; peace, peace at last.", "encyclopedia"),
    Document("5", "Café", "A place to drink.", "encyclopedia"),
    Document("6", "O'Brien", "An Irish family.", "encyclopedia"),
]


@pytest.fixture
def index(tmp_path: Path) -> CorpusIndex:
    build_index(DOCUMENTS, tmp_path / "corpus.db")
    return CorpusIndex(tmp_path / "corpus.db")


@pytest.mark.parametrize(
    ("question", "identifier"),
    [
        ("What is the capital of Mongolia?", "1"),
        ("How many people live in Mongolia?", "2"),
        ("Who wrote War and Peace?", "3"),
        ("cafe", "5"),
        ("Tell me about O'Brien's family!", "6"),
        ("O\u2019Brien", "6"),
    ],
)
def test_question_in_plain_language_finds_its_document_first(
    index: CorpusIndex, question: str, identifier: str
) -> None:
    assert index.search(question, 3)[0].id == identifier


def test_words_are_found_in_other_forms(index: CorpusIndex) -> None:
    assert "4" in [hit.id for hit in index.search("treaty", 5)]


def test_nothing_to_look_for_is_no_hit(index: CorpusIndex) -> None:
    assert index.search("", 5) == []
    assert index.search('?! -- "', 5) == []
    assert index.search("zyxwv", 5) == []


def test_question_of_stop_words_only_is_still_a_query(tmp_path: Path) -> None:
    build_index([Document("w", "The Who", "An English rock band.", "s")], tmp_path / "i.db")
    assert CorpusIndex(tmp_path / "i.db").search("The Who", 1)[0].id == "w"


def test_copies_count_once(tmp_path: Path) -> None:
    build_index([Document(str(n), "Same", "the same text", f"file {n}") for n in range(5)], tmp_path / "i.db")
    assert len(CorpusIndex(tmp_path / "i.db").search("same text", 5)) == 1


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.text(max_size=80) | st.text(alphabet="\"*():^-+{}'AND OR NOT NEAR title:\0\ud800\u0301²½ⅷ", max_size=40)
)
def test_no_query_is_a_syntax_error(index: CorpusIndex, query: str) -> None:
    assert len(index.search(query, 3)) <= 3


def test_query_of_a_whole_page_is_bounded(index: CorpusIndex) -> None:
    assert index.search("Mongolia capital " + " ".join(f"word{n}" for n in range(50_000)), 1)[0].id == "1"


def test_text_that_utf8_cannot_hold_is_indexed(tmp_path: Path) -> None:
    build_index([Document("a", "odd \ud800", "nul \0 inside", "s\udfff")], tmp_path / "i.db")
    assert CorpusIndex(tmp_path / "i.db").search("odd inside", 1)[0].text == "nul   inside"


def test_info_tells_what_the_index_holds(index: CorpusIndex) -> None:
    info = index.info()
    assert (info.documents, info.folder, info.bytes) == (6, None, index.path.stat().st_size)


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to be read as one" * 40])
def test_foreign_file_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "corpus.db"
    path.write_bytes(content)
    with pytest.raises(StorageError, match="damaged or is not a corpus index: delete it and build it again"):
        CorpusIndex(path)


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE meta (key, value)")
    connection.close()
    with pytest.raises(StorageError, match="not a corpus index"):
        CorpusIndex(path)


def test_damage_within_the_file_is_reported(index: CorpusIndex) -> None:
    content = bytearray(index.path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    index.path.write_bytes(content)
    with pytest.raises(StorageError, match="damaged"):
        index.search("Mongolia", 1)


def test_other_format_is_named(index: CorpusIndex) -> None:
    connection = sqlite3.connect(index.path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StorageError, match="format 99"):
        CorpusIndex(index.path)


def test_missing_index_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="agentflow setup"):
        CorpusIndex(tmp_path / "none.db")


def test_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be read or written"):
        build_index(DOCUMENTS, tmp_path / "file" / "corpus.db")


def test_failing_build_leaves_the_old_index(index: CorpusIndex) -> None:
    def documents():
        yield DOCUMENTS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(documents(), index.path)
    assert index.info().documents == 6
    assert [path.name for path in index.path.parent.iterdir() if "building" in path.name] == []


def test_killed_build_leaves_the_old_index(index: CorpusIndex) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from graph.corpus.document import Document\n"
        "from graph.corpus.index import build_index\n"
        "def documents():\n"
        "    for n in range(5000):\n"
        "        yield Document(str(n), 'new', 'words ' * 50, 's')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "build_index(documents(), Path(sys.argv[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(index.path)], check=False).returncode == -9
    assert index.search("capital of Mongolia", 1)[0].id == "1"
    assert build_index(DOCUMENTS[:2], index.path) == 2
    assert index.info().documents == 2


def test_twelve_readers_while_the_index_is_rebuilt(index: CorpusIndex) -> None:
    stop = threading.Event()

    def read() -> int:
        searches = 0
        while not stop.is_set():
            assert index.search("capital of Mongolia", 1)[0].id == "1"
            searches += 1
        return searches

    with ThreadPoolExecutor(12) as pool:
        readers = [pool.submit(read) for _ in range(12)]
        try:
            for _ in range(10):
                build_index(DOCUMENTS, index.path)
        finally:
            stop.set()
        assert all(reader.result() > 0 for reader in readers)


def test_builds_at_once_take_turns(index: CorpusIndex) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda n: build_index(DOCUMENTS[:n], index.path), (1, 2, 3, 4))) == [1, 2, 3, 4]
    assert index.info().documents in {1, 2, 3, 4}
