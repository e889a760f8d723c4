"""Commits of many writers, gathered."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager

import aiosqlite
import pytest

from graph.storage.group_commit import GroupCommit

INSERT = "INSERT INTO t VALUES (?)"


@asynccontextmanager
async def committer(file):
    async with aiosqlite.connect(file) as connection:
        await connection.execute("PRAGMA journal_mode=WAL")
        await connection.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY)")
        await connection.commit()
        yield GroupCommit(connection, asyncio.Lock()), connection


def stored(file) -> list[int]:
    with sqlite3.connect(file) as other:
        return [n for (n,) in other.execute("SELECT n FROM t ORDER BY n")]


async def test_what_was_taken_is_there_after_settling(tmp_path):
    file = tmp_path / "t.db"
    async with committer(file) as (commits, _):
        for n in range(100):
            await commits.take(INSERT, [(n,)])
        await commits.settle()
        assert stored(file) == list(range(100))
        await commits.settle()


async def test_what_was_taken_is_committed_without_settling(tmp_path):
    file = tmp_path / "t.db"
    async with committer(file) as (commits, _):
        await commits.take(INSERT, [(1,), (2,)])
        while not stored(file):  # noqa: ASYNC110 - another thread brings it
            await asyncio.sleep(0.005)
        assert stored(file) == [1, 2]
        await commits.take(INSERT, [(3,)])
        while len(stored(file)) < 3:  # noqa: ASYNC110 - another thread brings it
            await asyncio.sleep(0.005)


async def test_many_writers_at_once(tmp_path):
    file = tmp_path / "t.db"
    async with committer(file) as (commits, _):

        async def write(start: int) -> None:
            for n in range(start, start + 50):
                await commits.take(INSERT, [(n,)])
                if n % 7 == 0:
                    await commits.settle()
                    assert n in stored(file)
                await asyncio.sleep(0)

        await asyncio.gather(*(write(start) for start in range(0, 1000, 50)))
        await commits.settle()
        assert stored(file) == list(range(1000))


async def test_a_backlog_is_waited_for(tmp_path):
    file = tmp_path / "t.db"
    async with committer(file) as (commits, _):
        await commits.take(INSERT, [(n,) for n in range(5000)])
        assert len(stored(file)) == 5000


async def test_a_refused_commit_is_an_error_and_nothing_is_lost(tmp_path):
    """A full disk: the error reaches whoever settles or brings more; with room again, all is committed in order."""
    file = tmp_path / "t.db"
    async with committer(file) as (commits, connection):
        await connection.execute("PRAGMA max_page_count = 1")
        await commits.take(INSERT, [(n,) for n in range(900)])
        with pytest.raises(sqlite3.OperationalError, match="full"):
            await commits.settle()
        with pytest.raises(sqlite3.OperationalError, match="full"):
            await commits.take(INSERT, [(900,)])
        assert stored(file) == []
        await connection.execute("PRAGMA max_page_count = 1000000")
        await commits.take(INSERT, [(901,)])
        await commits.settle()
        assert stored(file) == list(range(902))
