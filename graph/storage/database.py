"""Opens the database of runs: SQLite in a file, or PostgreSQL.

Many processes may open one database at once, also one that is not there yet: they take turns at creating the tables.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import aiosqlite
from filelock import AsyncFileLock, Timeout
from langgraph.checkpoint.base import BaseCheckpointSaver
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine

from graph.errors import ConfigError, StorageError
from graph.storage.runs import RunStore
from graph.storage.serializer import StrictSerializer
from graph.storage.sqlite_saver import GroupCommitSaver
from graph.storage.tables import Tables
from graph.storage.traces import TraceStore

# Types outside the allow-list are refused, in every serializer of this process.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

_BUSY_SECONDS = 30.0
_LOCK = 0x61676C6F77
"""Of PostgreSQL's advisory locks, the one that we take; any number that nobody else uses."""


@dataclass(frozen=True)
class Database:
    """Open storage."""

    saver: BaseCheckpointSaver[Any]
    runs: RunStore
    traces: TraceStore

    async def settle(self, run: str) -> None:
        """Wait until everything of a run that was given to the saver before is on disk.

        Raises:
            sqlite3.Error: the database refuses it.
            StorageError: likewise, for another reason.
        """
        if isinstance(self.saver, GroupCommitSaver):
            await self.saver.settle(run)

    @property
    def durability(self) -> Literal["async", "sync"]:
        """When a step's checkpoint is written.

        Ours for SQLite commits in the order of the steps, so that steps need not wait for it. PostgreSQL's may commit
        what a step wrote before the checkpoint that it belongs to: a kill between them would lose it.
        """
        return "async" if isinstance(self.saver, GroupCommitSaver) else "sync"

    async def delete(self, run: str) -> None:
        """Remove a run with its checkpoints."""
        await self.saver.adelete_thread(run)
        await self.runs.delete(run)


@asynccontextmanager
async def open_database(url: str) -> AsyncIterator[Database]:
    """Open the database at `url`, creating what is missing.

    Raises:
        ConfigError: the address is not one of a file or of PostgreSQL, or its driver is not installed.
        StorageError: it cannot be opened, read or written.
    """
    if url.startswith(("postgresql://", "postgres://")):
        async with _open_postgres(url) as database:
            yield database
    elif "://" in url:
        raise ConfigError(f"storage.url {url!r} is neither a file nor postgresql://….")
    else:
        async with _open_sqlite(Path(url)) as database:
            yield database


@asynccontextmanager
async def _open_sqlite(path: Path) -> AsyncIterator[Database]:
    _make_directory(path.parent)
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    event.listen(engine.sync_engine, "connect", _tune)
    tables = Tables(engine, lambda error: _sqlite_sentence(path, error))
    try:
        # A connection that cannot be opened leaves aiosqlite's thread talking to an event loop that is gone.
        await asyncio.to_thread(_try_to_open, path)
        async with aiosqlite.connect(str(path), timeout=_BUSY_SECONDS) as connection:
            saver = GroupCommitSaver(connection, serde=StrictSerializer())
            async with _alone(path):
                await saver.setup()
                await tables.create()
            await connection.execute("PRAGMA synchronous=NORMAL")
            try:
                yield Database(saver, RunStore(tables), TraceStore(tables))
            except BaseException:
                with suppress(sqlite3.Error, StorageError):  # what ended the block says more
                    await saver.close()
                raise
            await saver.close()
    except (sqlite3.Error, SQLAlchemyError) as error:
        raise StorageError(_sqlite_sentence(path, error)) from error
    finally:
        await engine.dispose()


def _try_to_open(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_schema")


@asynccontextmanager
async def _alone(path: Path) -> AsyncIterator[None]:
    """Keep other processes out: switching to the write-ahead log does not wait for others that do the same."""
    lock = AsyncFileLock(f"{path}.lock", timeout=_BUSY_SECONDS)
    try:
        await lock.acquire()
    except Timeout as error:
        raise StorageError(f"Another process keeps {lock.lock_file}: end it, or change storage.url.") from error
    except OSError as error:
        why = error.strerror or error
        raise StorageError(f"{path} cannot be written ({why}): make it writable, or change storage.url.") from error
    try:
        yield
    finally:
        await lock.release()


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        ignore = directory / ".gitignore"
        if directory.name == ".agentflow" and not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"The directory {directory} cannot be written ({error.strerror}): make it writable, or change storage.url."
        ) from error


def _tune(connection: Any, _record: Any) -> None:
    """Let writers wait for each other, and trust the write-ahead log after a crash of the process."""
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={int(_BUSY_SECONDS * 1000)}")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _sqlite_sentence(path: Path, error: Exception) -> str:
    cause = str(getattr(error, "orig", None) or error)
    if "not a database" in cause or "malformed" in cause:
        return (
            f"{path} is not a database of this project, or is damaged ({cause}): move it away, or change storage.url."
        )
    if "readonly" in cause or "unable to open" in cause:
        return f"{path} cannot be written ({cause}): make it writable, or change storage.url."
    if "full" in cause or "disk I/O" in cause:
        return f"The disk that holds {path} is full ({cause}): free space, then resume the run; nothing saved is lost."
    return f"The database {path} failed: {cause}."


@asynccontextmanager
async def _open_postgres(url: str) -> AsyncIterator[Database]:
    try:
        import psycopg  # an extra: most users have no PostgreSQL
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    except ImportError as error:
        raise ConfigError("PostgreSQL needs its driver: pip install 'agentflow[postgres]'.") from error
    try:
        address = make_url(url).set(drivername="postgresql+psycopg")
    except ArgumentError as error:
        raise ConfigError("storage.url is not a valid postgresql:// address.") from error
    engine = create_async_engine(address)
    try:
        async with AsyncPostgresSaver.from_conn_string(url, serde=StrictSerializer()) as saver:
            tables = Tables(engine, lambda error: _postgres_sentence(address.host, error))
            async with _turn(saver):
                await saver.setup()
                await tables.create()
            yield Database(saver, RunStore(tables), TraceStore(tables))
    except (psycopg.Error, SQLAlchemyError) as error:
        raise StorageError(_postgres_sentence(address.host, error)) from error
    finally:
        await engine.dispose()


def _postgres_sentence(host: str | None, error: Exception) -> str:
    cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0].rstrip(".")
    return f"PostgreSQL at {host or 'the default host'} failed: {cause}."


@asynccontextmanager
async def _turn(saver: Any) -> AsyncIterator[None]:
    """Hold this database's lock for creating tables.

    It is tried again and again rather than waited for: the index that the saver builds concurrently would wait for
    whoever waits for the lock.
    """
    while True:
        found = await (await saver.conn.execute("SELECT pg_try_advisory_lock(%s) AS held", (_LOCK,))).fetchone()
        if found["held"]:
            break
        await asyncio.sleep(0.05)
    try:
        yield
    finally:
        await saver.conn.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))
