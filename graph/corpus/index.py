"""BM25 over a corpus on disk."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from graph.corpus.document import Document
from graph.corpus.query import match_expression
from graph.corpus.ranking import CANDIDATES, rerank_gain
from graph.corpus.schema import open_read_only, replacing, storage_errors

TITLE_WEIGHT = 3.0
"""A word in a title counts as this many in the text; benchmarks/corpus_search.py shows what it brings."""


@dataclass(frozen=True)
class Hit:
    """A document that matches a query."""

    id: str
    title: str
    text: str
    source: str
    score: float
    """BM25 with the gains of graph/corpus/ranking.py; higher is better, comparable within one search only."""


@dataclass(frozen=True)
class IndexInfo:
    """What an index holds."""

    path: Path
    documents: int
    folder: str | None
    """The folder it was built from; None for documents handed over by a program."""
    built: str
    """When, in UTC (ISO 8601)."""
    bytes: int


class CorpusIndex:
    """A published index, opened read-only for each search.

    A connection lives for one call only: any number of threads may search at once, and a new build is seen
    by the next search.
    """

    def __init__(self, path: Path) -> None:
        """Raises StorageError if there is no index at `path`, or it is damaged or of another format."""
        self.path = path
        self.info()

    def search(self, query: str, top_k: int = 5) -> list[Hit]:
        """The `top_k` best documents for a question or keywords, best first; none if no word of it occurs.

        Documents with the same title and text (copies of a file) count once. Raises StorageError.
        """
        expression = match_expression(query)
        if expression is None or top_k < 1:
            return []
        with storage_errors(self.path), closing(open_read_only(self.path)) as connection:
            rows = connection.execute(
                "SELECT d.id, d.title, d.text, d.source, found.score FROM ("
                "  SELECT rowid, bm25(search, ?, 1.0) AS score FROM search WHERE search MATCH ? ORDER BY score LIMIT ?"
                ") AS found JOIN documents AS d ON d.rowid = found.rowid ORDER BY found.score",
                (TITLE_WEIGHT, expression, max(CANDIDATES, 2 * top_k)),
            ).fetchall()
        gain = rerank_gain(query)
        hits: dict[tuple[str, str], Hit] = {}
        for identifier, title, text, source, score in rows:
            hits.setdefault((title, text), Hit(identifier, title, text, source, -score * gain(title, text)))
        return sorted(hits.values(), key=lambda hit: -hit.score)[:top_k]

    def info(self) -> IndexInfo:
        """What the index holds. Raises StorageError."""
        with storage_errors(self.path), closing(open_read_only(self.path)) as connection:
            meta = dict(connection.execute("SELECT key, value FROM meta"))
            documents = count_documents(connection)
            size = self.path.stat().st_size
        return IndexInfo(self.path, documents, meta.get("folder"), meta["built"], size)


def build_index(documents: Iterable[Document], path: Path) -> int:
    """Index `documents` at `path`, in the place of what is there; returns how many there are.

    Nothing changes at `path` until the whole index stands. Raises StorageError.
    """
    with replacing(path, keep=False) as connection:
        insert_documents(connection, documents)
        finish(connection)
        return count_documents(connection)


def insert_documents(connection: sqlite3.Connection, documents: Iterable[Document], file: str | None = None) -> None:
    """Add documents to an index under construction; `file` is the row of `files` that they were read from."""
    connection.executemany(
        "INSERT INTO documents (id, title, text, source, file) VALUES (?, ?, ?, ?, ?)",
        ((_clean(d.id), _clean(d.title), _clean(d.text), _clean(d.source), file) for d in documents),
    )


def count_documents(connection: sqlite3.Connection) -> int:
    """How many documents an index holds."""
    (count,) = connection.execute("SELECT count(*) FROM documents").fetchone()
    return int(count)


def finish(connection: sqlite3.Connection, folder: str | None = None) -> None:
    """Write what `info` tells, and merge the search structures so that queries are as fast as they can be."""
    meta = {"built": datetime.now(UTC).isoformat(timespec="seconds")} | ({"folder": folder} if folder else {})
    connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", meta.items())
    connection.execute("INSERT INTO search (search) VALUES ('optimize')")


def _clean(text: str) -> str:
    """Text that SQLite can store: JSON may hold lone surrogates, which UTF-8 has no bytes for, and NUL characters."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
