"""Runs on a real PostgreSQL: storage, and kill -9 at every point of a run."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from graph.errors import StorageError
from graph.storage.database import open_database
from tests.kills import *  # noqa: F403
from tests.stored_runs import *  # noqa: F403
from tests.stored_traces import *  # noqa: F403

pytestmark = pytest.mark.postgres


def _program(name: str) -> str | None:
    """A program of the newest PostgreSQL on this machine; distributions keep them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    return shutil.which(name) or (str(found[-1]) if found else None)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a private PostgreSQL on a free port, without its database's name."""
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    if not initdb or not pg_ctl:
        pytest.skip("needs PostgreSQL's initdb and pg_ctl (apt-get install postgresql)")
    pytest.importorskip("psycopg", reason="needs the postgres extra")
    # It refuses to run as root, and its own user cannot enter pytest's directories.
    root = os.geteuid() == 0
    directory = Path(tempfile.mkdtemp(prefix="agentflow-postgres-"))
    identity = {}
    if root:
        user = pwd.getpwnam("postgres")
        os.chown(directory, user.pw_uid, user.pw_gid)
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = directory / "data"

    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=directory, **identity)

    run(initdb, "-D", str(data), "-U", "agentflow", "-A", "trust", "--no-sync", "-E", "UTF8")
    options = f"-p {port} -k {directory} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200"
    run(pg_ctl, "-D", str(data), "-l", str(directory / "log"), "-w", "-o", options, "start")
    try:
        yield f"postgresql://agentflow@127.0.0.1:{port}"
    finally:
        run(pg_ctl, "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def url(cluster: str, request: pytest.FixtureRequest) -> str:
    """The address of an empty database."""
    import psycopg

    name = f"test_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(f"{cluster}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{cluster}/{name}"


@pytest.fixture
def counting(tmp_path, monkeypatch):
    file = tmp_path / "count.txt"
    file.touch()
    monkeypatch.setenv("COUNTING_FILE", str(file))
    return file


_VERSION_1 = """
CREATE TABLE runs (
  id VARCHAR(36) PRIMARY KEY, conversation VARCHAR(64), parent VARCHAR(36), question TEXT NOT NULL,
  request TEXT NOT NULL, status VARCHAR(16) NOT NULL, stop VARCHAR(16), answer TEXT, turns INTEGER, seconds FLOAT,
  error TEXT, owner TEXT, tags JSON NOT NULL, created FLOAT NOT NULL, updated FLOAT NOT NULL, trajectory BYTEA
);
CREATE INDEX ix_runs_conversation ON runs (conversation);
CREATE INDEX ix_runs_created ON runs (created);
CREATE INDEX ix_runs_status ON runs (status);
COMMENT ON TABLE runs IS 'agentflow runs, version 1';
"""


@pytest.fixture
def make_version_1(url):
    async def make(statements):
        engine = create_async_engine(make_url(url).set(drivername="postgresql+psycopg"))
        async with engine.begin() as connection:
            for statement in _VERSION_1.strip().split(";\n"):
                await connection.exec_driver_sql(statement)
            for statement, row in statements:
                await connection.execute(statement, row)
        await engine.dispose()

    return make


async def test_a_table_of_another_version_is_refused(url):
    import psycopg

    async with open_database(url):
        pass
    for comment in ("'agentflow runs, version 99'", "NULL"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"COMMENT ON TABLE runs IS {comment}")
        with pytest.raises(StorageError, match="were written by another version"):
            async with open_database(url):
                pass
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE runs")
    for _ in range(2):
        async with open_database(url) as database:
            assert await database.runs.latest() == []
