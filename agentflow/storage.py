"""The database of runs, for commands that look at what is there: they create none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph.config import FlowConfig
    from graph.storage.database import Database
    from graph.storage.runs import RunRow


def is_there(config: "FlowConfig") -> bool:
    """Whether there is a database."""
    return "://" in config.storage.url or Path(config.storage.url).exists()


@asynccontextmanager
async def open_existing(config: "FlowConfig") -> "AsyncIterator[Database]":
    """Open the database.

    Raises:
        ConfigError: there is none.
        StorageError: it cannot be opened.
    """
    from graph.errors import ConfigError
    from graph.storage.database import open_database  # slow to load: `--help` needs none of it

    if not is_there(config):
        raise ConfigError(f"There are no runs yet: nothing is stored at {config.storage.url}.")
    async with open_database(config.storage.url) as database:
        yield database


async def find_run(database: "Database", run: str) -> "RunRow":
    """Return a run by its id, or the beginning of it.

    Raises:
        ConfigError: there is none, or several begin so.
    """
    from graph.errors import ConfigError

    row = await database.runs.get(run)
    if row is None:
        raise ConfigError(f"There is no run {run!r}: `agentflow runs list` shows those that there are.")
    return row
