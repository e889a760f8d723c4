"""The index file: SQLite with an FTS5 table over the documents.

A published index is never written to: a build works on a file beside it and puts that in its place, so that a killed
build leaves the old index as it was and readers need no lock.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from graph.errors import StorageError

APPLICATION_ID = 0x41664372
"""Marks a SQLite file as an index of ours."""
VERSION = 1

_LOCK_SECONDS = 60.0

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL,
    problems TEXT NOT NULL  -- JSON list of reasons: what a build skipped in this file is named again by the next
) WITHOUT ROWID;
CREATE TABLE documents (
    rowid INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, source TEXT NOT NULL,
    file TEXT  -- of `files`; NULL when the documents did not come from a folder
);
CREATE INDEX documents_by_file ON documents (file) WHERE file IS NOT NULL;
CREATE VIRTUAL TABLE search USING fts5 (
    title, text, content='documents', content_rowid='rowid', tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER documents_insert AFTER INSERT ON documents BEGIN
    INSERT INTO search (rowid, title, text) VALUES (new.rowid, new.title, new.text);
END;
CREATE TRIGGER documents_delete AFTER DELETE ON documents BEGIN
    INSERT INTO search (search, rowid, title, text) VALUES ('delete', old.rowid, old.title, old.text);
END;
"""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise what SQLite and the file system report about the index at `path` as StorageError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "no such module" in str(error):
            raise StorageError(
                "This Python's SQLite has no FTS5: use a Python whose sqlite3 module is built with it."
            ) from error
        if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise StorageError(f"The corpus index {path} cannot be read or written ({error}).") from error
        raise _not_an_index(path) from error
    except OSError as error:
        raise StorageError(f"The corpus index {path} cannot be read or written ({error.strerror or error}).") from error


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a published index.

    Raises StorageError where there is none, or where the file is damaged or not an index of this version.
    """
    if not path.is_file():
        raise StorageError(
            f"There is no corpus index at {path}: run `agentflow setup` for the starter corpus, or "
            "`agentflow corpus build DIR` for your own."
        )
    with storage_errors(path):
        # immutable: no lock and no journal is looked for, which also serves read-only directories
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            _check(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def replacing(path: Path, *, keep: bool) -> Iterator[sqlite3.Connection]:
    """A connection to write the next version of the index with; it takes `path`'s place when the block ends well.

    keep: start from the present index, if there is one, in place of an empty one.
    Raises StorageError when the place cannot be written, the present index is damaged, or another build is running.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=_LOCK_SECONDS)
        try:
            lock.acquire()
        except Timeout as error:
            raise StorageError(f"Another build of {path} is running: wait for it, or give another path.") from error
        try:
            yield from _replace(path, keep=keep)
        finally:
            lock.release()


def _replace(path: Path, *, keep: bool) -> Iterator[sqlite3.Connection]:
    # one fixed name, safe under the lock: what a killed build left is overwritten, never collected
    building = path.with_name(f".{path.name}.building")
    building.unlink(missing_ok=True)
    try:
        existing = keep and path.exists()
        if existing:
            with closing(open_read_only(path)):
                shutil.copyfile(path, building)
        with closing(sqlite3.connect(building, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            if not existing:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.executescript(_SCHEMA)
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
        with building.open("rb") as file:
            os.fsync(file.fileno())
        building.replace(path)
    finally:
        building.unlink(missing_ok=True)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise _not_an_index(path)
    if version != VERSION:
        raise StorageError(
            f"The corpus index {path} was made by another release (format {version}, this one reads {VERSION}): "
            "build it again."
        )


def _not_an_index(path: Path) -> StorageError:
    return StorageError(
        f"{path} is damaged or is not a corpus index: delete it and build it again with `agentflow corpus build DIR`, "
        "or `agentflow setup` for the starter corpus."
    )
