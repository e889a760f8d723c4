"""Opening the database: SQLite files in every state."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from langchain_core.runnables import RunnableConfig

from graph.errors import ConfigError, StorageError
from graph.state import Request
from graph.storage.database import open_database


async def test_directories_and_files_are_made(tmp_path):
    file = tmp_path / "a" / ".agentflow" / "runs.db"
    async with open_database(str(file)):
        pass
    assert file.exists()
    assert (file.parent / ".gitignore").read_text() == "*\n"
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_opening_again_changes_nothing(tmp_path):
    file = str(tmp_path / "runs.db")
    async with open_database(file) as database:
        await database.runs.start("run-1", Request(question="q"))
    for _ in range(2):
        async with open_database(file) as database:
            assert [row.id for row in await database.runs.latest()] == ["run-1"]


async def test_two_openings_at_once_in_one_process(tmp_path):
    file = str(tmp_path / "runs.db")

    async def write(run: str) -> None:
        async with open_database(file) as database:
            await database.runs.start(run, Request(question="q"))

    await asyncio.gather(*(write(f"run-{n}") for n in range(8)))
    async with open_database(file) as database:
        assert len(await database.runs.latest()) == 8


@pytest.mark.parametrize("content", [b"not a database, not at all. " * 100, b"SQLite format 3\x00" + b"\xff" * 4000])
async def test_a_file_that_is_no_database(content, tmp_path):
    file = tmp_path / "runs.db"
    file.write_bytes(content)
    with pytest.raises(StorageError, match=r"runs.db.* move it away, or change storage.url"):
        async with open_database(str(file)) as database:
            await database.runs.latest()
    assert file.read_bytes() == content


async def test_a_directory_in_the_files_place(tmp_path):
    (tmp_path / "runs.db").mkdir()
    with pytest.raises(StorageError, match=r"runs.db"):
        async with open_database(str(tmp_path / "runs.db")):
            pass


async def test_a_file_in_the_directorys_place(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(StorageError, match=r"state cannot be written .*: make it writable, or change storage.url"):
        async with open_database(str(tmp_path / "state" / "runs.db")):
            pass


@pytest.mark.parametrize("url", ["mysql://host/db", "http://host", "sqlite:///file"])
async def test_other_addresses(url):
    with pytest.raises(ConfigError, match=f"storage.url '{url}' is neither a file nor postgresql"):
        async with open_database(url):
            pass


async def test_postgresql_that_does_not_answer():
    pytest.importorskip("psycopg")
    with pytest.raises(StorageError, match=r"PostgreSQL at 127\.0\.0\.1 failed: ") as raised:
        async with open_database("postgresql://user:planted@127.0.0.1:9/db?connect_timeout=3"):
            pass
    assert "planted" not in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_what_waits_is_committed_when_the_block_fails(tmp_path):
    file = str(tmp_path / "runs.db")
    saved: RunnableConfig = {"configurable": {"thread_id": "run-1", "checkpoint_ns": "", "checkpoint_id": "1"}}

    async def write() -> None:
        async with open_database(file) as database:
            await database.saver.aput_writes(saved, [("answer", "42")], "task")
            raise KeyError

    with pytest.raises(KeyError):
        await write()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT thread_id, channel FROM writes").fetchall() == [("run-1", "answer")]


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA user_version = 0",  # from before there were versions
        "PRAGMA user_version = 99",
        "DROP TABLE runs; CREATE TABLE runs (id TEXT); PRAGMA user_version = 0",
        "DROP TABLE runs; PRAGMA user_version = 99",
    ],
)
async def test_a_table_of_another_version_is_refused_and_left_alone(statement, tmp_path):
    file = tmp_path / "runs.db"
    async with open_database(str(file)) as database:
        await database.runs.start("run-1", Request(question="q"))
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(statement)
        before = list(connection.iterdump())
    with pytest.raises(StorageError, match=r"runs.db were written by another version .* move the database away"):
        async with open_database(str(file)):
            pass
    with closing(sqlite3.connect(file)) as connection:
        assert list(connection.iterdump()) == before


async def test_a_file_whose_making_was_cut_short_is_made_whole(tmp_path):
    """Killed after the version was written, before the table."""
    file = tmp_path / "runs.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 1")
    async with open_database(str(file)) as database:
        await database.runs.start("run-1", Request(question="q"))
