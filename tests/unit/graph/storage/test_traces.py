"""Trajectories on SQLite; tests/integration/test_postgres.py runs the same on PostgreSQL."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from graph.storage.database import open_database
from graph.traces.selection import Selection
from tests.stored_traces import *  # noqa: F403

_VERSION_1 = """
CREATE TABLE runs (
  id VARCHAR(36) NOT NULL, conversation VARCHAR(64), parent VARCHAR(36), question TEXT NOT NULL, request TEXT NOT NULL,
  status VARCHAR(16) NOT NULL, stop VARCHAR(16), answer TEXT, turns INTEGER, seconds FLOAT, error TEXT, owner TEXT,
  tags JSON NOT NULL, created FLOAT NOT NULL, updated FLOAT NOT NULL, trajectory BLOB, PRIMARY KEY (id)
);
CREATE INDEX ix_runs_conversation ON runs (conversation);
CREATE INDEX ix_runs_created ON runs (created);
CREATE INDEX ix_runs_status ON runs (status);
PRAGMA user_version = 1;
"""


@pytest.fixture
def make_version_1(url):
    async def make(statements):
        Path(url).parent.mkdir(parents=True)
        with closing(sqlite3.connect(url)) as connection:
            connection.executescript(_VERSION_1)
        engine = create_engine(f"sqlite:///{url}")
        with engine.begin() as connection:
            for statement, row in statements:
                connection.execute(statement, row)
        engine.dispose()

    return make


async def test_bringing_up_to_date_that_was_cut_short_is_done_again(url, make_version_1):
    """Killed when half of the columns were there."""
    await make_version_1([])
    with closing(sqlite3.connect(url)) as connection:
        connection.executescript(
            "ALTER TABLE runs ADD COLUMN source VARCHAR(16); ALTER TABLE runs ADD COLUMN dataset TEXT"
        )
    async with open_database(url) as database:
        assert await database.traces.count(Selection()) == 0
    with closing(sqlite3.connect(url)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


async def test_many_bring_it_up_to_date_at_once(url, make_version_1):
    await make_version_1([])

    async def look():
        async with open_database(url) as database:
            return await database.traces.count(Selection())

    assert await asyncio.gather(*(look() for _ in range(8))) == [0] * 8
