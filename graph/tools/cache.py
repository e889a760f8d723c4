"""The cache of tool results: LangGraph's own, in the user's cache directory, shared by all runs."""

import sqlite3

from langgraph.cache.base import BaseCache
from langgraph.cache.sqlite import SqliteCache

from graph.corpus.location import cache_directory
from graph.errors import StorageError


def open_cache() -> BaseCache[dict[str, object]]:
    """Open the cache, creating it where it is missing.

    Raises:
        StorageError: the file cannot be opened or written.
    """
    path = cache_directory() / "tools.db"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return SqliteCache(path=str(path))
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f"The cache of tool results {path} cannot be opened: {error}; remove it.") from error
