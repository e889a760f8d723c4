"""An index of a folder, kept up to date."""

import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from graph.corpus.index import count_documents, finish, insert_documents
from graph.corpus.readers import SUFFIXES, reader_of
from graph.corpus.schema import replacing
from graph.errors import ConfigError

MAX_PROBLEMS = 20
"""Reasons kept for one file; of the rest, the report says how many there are."""


@dataclass
class BuildReport:
    """What a build did, counted in files."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    unchanged: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(path within the folder, reason): files, or lines of files, that are not in the index."""
    documents: int = 0
    """In the index after the build."""


@dataclass(frozen=True)
class _Known:
    """What the index knows about a file."""

    size: int
    mtime_ns: int
    sha256: str
    problems: tuple[str, ...]


def build_folder(folder: Path, path: Path, on_file: Callable[[str], None] | None = None) -> BuildReport:
    """Index the JSONL, Markdown and text files under `folder` at `path`; files unchanged since are not read again.

    on_file: called with each file's path within the folder before it is looked at.
    Hidden files and other kinds of files are passed over. A file or line that cannot be read is named in the report,
    and the rest is built. Raises ConfigError for a folder that is missing or holds nothing to index, or an index of
    another folder; StorageError as `graph.corpus.schema.replacing`.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder: give one with JSONL, Markdown or text files.")
    report = BuildReport()
    files = list(_walk(folder.resolve(), report))
    if not files:
        raise ConfigError(f"{folder} holds no file to index ({', '.join(SUFFIXES)}); nothing was changed.")
    with replacing(path, keep=True) as connection:
        _check_folder(connection, folder, path)
        known = _known_files(connection)
        for file in files:
            name = _name(file, folder.resolve())
            if on_file:
                on_file(name)
            _update(connection, file, name, known.pop(name, None), report)
        for name in known:
            _forget(connection, name)
            report.removed += 1
        finish(connection, folder=str(folder.resolve()))
        report.documents = count_documents(connection)
    return report


def _walk(folder: Path, report: BuildReport) -> Iterator[Path]:
    """The files to index, in a stable order; links are followed, but no folder is entered below itself."""

    def unreadable(error: OSError) -> None:
        report.skipped.append((_name(Path(error.filename), folder), f"cannot be read ({error.strerror})"))

    for place, subfolders, names in os.walk(folder, followlinks=True, onerror=unreadable):
        here = Path(place)
        above = list(_lineage(here, folder))
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in tuple(subfolders):
            real = (here / name).resolve()
            if (here / name).is_symlink() and any(parent.is_relative_to(real) for parent in above):
                report.skipped.append((_name(here / name, folder), "a link to a folder that contains it"))
                subfolders.remove(name)
        for name in sorted(names):
            if not name.startswith(".") and reader_of(here / name):
                yield here / name


def _lineage(here: Path, folder: Path) -> Iterator[Path]:
    """Where `here` and the folders above it, up to `folder`, really are."""
    yield here.resolve()
    while here != folder:
        here = here.parent
        yield here.resolve()


def _update(connection: sqlite3.Connection, file: Path, name: str, known: _Known | None, report: BuildReport) -> None:
    try:
        status = _regular(file)
        same = known and (known.size, known.mtime_ns) == (status.st_size, status.st_mtime_ns)
        sha256 = known.sha256 if known and same else _sha256(file)
        if known and known.sha256 == sha256:
            problems = list(known.problems)
            report.unchanged += 1
        else:
            problems = _read(connection, file, name, known)
            report.added += known is None
            report.updated += known is not None
    except OSError as error:
        # not remembered, so that the next build looks again; what it held before is not offered as current either
        report.skipped.append((name, f"cannot be read ({error.strerror})"))
        _forget(connection, name)
        return
    connection.execute(
        "INSERT OR REPLACE INTO files (path, size, mtime_ns, sha256, problems) VALUES (?, ?, ?, ?, ?)",
        (name, status.st_size, status.st_mtime_ns, sha256, json.dumps(problems)),
    )
    report.skipped.extend((name, problem) for problem in problems)


def _regular(file: Path) -> os.stat_result:
    """The file's status. Raises OSError for a pipe or device, which would never end."""
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "not a regular file")
    return status


def _read(connection: sqlite3.Connection, file: Path, name: str, known: _Known | None) -> list[str]:
    """Put the file's documents in the place of those it had; returns what was left out of it."""
    problems: list[str] = []
    count = 0

    def problem(reason: str) -> None:
        nonlocal count
        count += 1
        if count <= MAX_PROBLEMS:
            problems.append(reason)

    reader = reader_of(file)
    assert reader is not None
    if known:
        _forget(connection, name)
    insert_documents(connection, reader(file, name, problem), file=name)
    if count > MAX_PROBLEMS:
        problems.append(f"and {count - MAX_PROBLEMS} more lines")
    return problems


def _forget(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DELETE FROM documents WHERE file = ?", (name,))
    connection.execute("DELETE FROM files WHERE path = ?", (name,))


def _known_files(connection: sqlite3.Connection) -> dict[str, _Known]:
    rows = connection.execute("SELECT path, size, mtime_ns, sha256, problems FROM files")
    return {
        path: _Known(size, mtime_ns, sha256, tuple(json.loads(problems)))
        for path, size, mtime_ns, sha256, problems in rows
    }


def _check_folder(connection: sqlite3.Connection, folder: Path, path: Path) -> None:
    row = connection.execute("SELECT value FROM meta WHERE key = 'folder'").fetchone()
    other = row[0] if row else ("documents of a program" if count_documents(connection) else None)
    if other is not None and other != str(folder.resolve()):
        raise ConfigError(f"{path} is an index of {other}: give another path, or delete it first.")


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _name(path: Path, folder: Path) -> str:
    """The path within the folder, with bytes that are not UTF-8 escaped."""
    relative = path.relative_to(folder) if path.is_relative_to(folder) else path
    return relative.as_posix().encode("utf-8", "backslashreplace").decode()
