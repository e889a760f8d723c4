"""Commits of many writers, gathered."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager

import aiosqlite
import pytest

from graph.errors import StorageError
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
            await commits.take("run", INSERT, [(n,)])
        await commits.settle("run")
        assert stored(file) == list(range(100))
        await commits.settle("run")


async def test_what_was_taken_is_committed_without_settling(tmp_path):
    file = tmp_path / "t.db"
    async with committer(file) as (commits, _):
        await commits.take("run", INSERT, [(1,), (2,)])
        while not stored(file):  # noqa: ASYNC110 - another thread brings it
            await asyncio.sleep(0.005)
        assert stored(file) == [1, 2]
        await commits.take("run", INSERT, [(3,)])
        while len(stored(file)) < 3:  # noqa: ASYNC110 - another thread brings it
            await asyncio.sleep(0.005)


async def test_many_writers_at_once(tmp_path):
    file = tmp_path / "t.db"
    async with committer(file) as (commits, _):

        async def write(start: int) -> None:
            for n in range(start, start + 50):
                await commits.take("run", INSERT, [(n,)])
                if n % 7 == 0:
                    await commits.settle("run")
                    assert n in stored(file)
                await asyncio.sleep(0)

        await asyncio.gather(*(write(start) for start in range(0, 1000, 50)))
        await commits.settle("run")
        assert stored(file) == list(range(1000))


async def test_a_backlog_is_waited_for(tmp_path):
    file = tmp_path / "t.db"
    async with committer(file) as (commits, _):
        await commits.take("run", INSERT, [(n,) for n in range(5000)])
        assert len(stored(file)) == 5000


async def test_a_refused_commit_is_an_error_and_nothing_is_lost(tmp_path):
    """A full disk: the error reaches whoever settles or brings more; with room again, all is committed in order."""
    file = tmp_path / "t.db"
    async with committer(file) as (commits, connection):
        await connection.execute("PRAGMA max_page_count = 1")
        await commits.take("run", INSERT, [(n,) for n in range(900)])
        with pytest.raises(sqlite3.OperationalError, match="full"):
            await commits.settle("run")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            await commits.take("run", INSERT, [(900,)])
        assert stored(file) == []
        await connection.execute("PRAGMA max_page_count = 1000000")
        await commits.take("run", INSERT, [(901,)])
        await commits.settle("run")
        assert stored(file) == list(range(902))


UNFIT = 1 << 70
"""SQLite has no such number: binding it is an OverflowError."""


async def test_a_row_that_never_fits_fails_its_own_run_only(tmp_path):
    """Every other run goes on, and the refused run is told each time rather than kept waiting."""
    file = tmp_path / "t.db"
    async with committer(file) as (commits, _):
        await commits.take("bad", INSERT, [(1000,), (UNFIT,)])
        await commits.take("good", INSERT, [(1,)])
        await commits.settle("good")
        for _ in range(2):
            with pytest.raises(StorageError, match=r"What the run bad wrote cannot be saved .*too large") as raised:
                await commits.settle("bad")
            assert isinstance(raised.value.__cause__, OverflowError)
        with pytest.raises(StorageError, match="too large"):
            await commits.take("bad", INSERT, [(1001,)])
        await commits.take("good", INSERT, [(2,)])
        await commits.settle("good")
        await commits.close()
        assert stored(file) == [1, 2]
        await commits.forget("bad")
        await commits.take("bad", INSERT, [(3,)])
        await commits.settle("bad")
        assert stored(file) == [1, 2, 3]


async def test_a_row_that_is_taken_already_fails_its_own_run_only(tmp_path):
    file = tmp_path / "t.db"
    async with committer(file) as (commits, _):
        await commits.take("one", INSERT, [(1,)])
        await commits.settle("one")
        await commits.take("two", INSERT, [(1,), (2,)])
        await commits.take("three", INSERT, [(3,)])
        with pytest.raises(sqlite3.IntegrityError):
            await commits.settle("two")
        await commits.settle("three")
        assert stored(file) == [1, 3]


async def test_a_closed_connection_is_an_error_and_not_a_wait_for_ever(tmp_path):
    async with committer(tmp_path / "t.db") as (commits, connection):
        await connection.close()
        await commits.take("run", INSERT, [(1,)])
        async with asyncio.timeout(10):
            with pytest.raises(StorageError, match="cannot be saved"):
                await commits.settle("run")


async def test_closing_commits_what_waits_and_tells_of_an_error_that_nobody_knows(tmp_path):
    file = tmp_path / "t.db"
    async with committer(file) as (commits, _):
        await commits.take("bad", INSERT, [(UNFIT,)])
        await commits.take("good", INSERT, [(1,)])
        with pytest.raises(StorageError, match="run bad"):
            await commits.close()
        assert stored(file) == [1]
        assert commits._timer is None
        await commits.close()
