"""The cache of tool results: LangGraph's own, in the user's cache directory, shared by all runs and processes."""

import logging
import sqlite3
from collections.abc import Mapping, Sequence

from filelock import FileLock, Timeout
from langgraph.cache.base import FullKey
from langgraph.cache.sqlite import SqliteCache

from graph.corpus.location import cache_directory
from graph.errors import StorageError
from graph.storage.serializer import StrictSerializer

_log = logging.getLogger(__name__)

_BUSY_MILLISECONDS = 10_000
_OPENING_SECONDS = 30.0


class ResultCache(SqliteCache[dict[str, object]]):
    """Keeps results for later. It is a convenience: what it cannot read or write costs a call again, never a run."""

    def __init__(self, path: str) -> None:
        super().__init__(path=path, serde=StrictSerializer())
        self._conn.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
        self._conn.execute("PRAGMA synchronous=NORMAL")

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, dict[str, object]]:
        """Return what is there of `keys`; nothing where the file is damaged or of somebody else's making."""
        try:
            return super().get(keys)
        except (sqlite3.Error, StorageError, ValueError) as error:
            _log.warning("The cache of tool results cannot be read: %s.", error)
            return {}

    def set(self, mapping: Mapping[FullKey, tuple[dict[str, object], int | None]]) -> None:
        """Keep results; a full disk or a damaged file loses them."""
        try:
            super().set(mapping)
        except sqlite3.Error as error:
            _log.warning("The cache of tool results cannot be written: %s.", error)


def open_cache() -> ResultCache:
    """Open the cache, creating it where it is missing.

    Raises:
        StorageError: the file cannot be opened or written.
    """
    path = cache_directory() / "tools.db"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Switching to the write-ahead log does not wait for others that do the same.
        with FileLock(f"{path}.lock", timeout=_OPENING_SECONDS):
            return ResultCache(str(path))
    except Timeout as error:
        raise StorageError(f"Another process keeps {path}.lock: end it, or ask without the cache.") from error
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f"The cache of tool results {path} cannot be opened: {error}; remove it.") from error
