"""Statements on the tables of runs, on SQLite and PostgreSQL alike."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from graph.errors import StorageError
from graph.storage.facets import fill_facets
from graph.storage.run_table import TABLE_VERSION, add_columns, create_tables, note_version


class Tables:
    """Runs statements, and says in a sentence what a database has against one."""

    def __init__(self, engine: AsyncEngine, explain: Callable[[Exception], str]) -> None:
        self._engine = engine
        self._explain = explain

    async def create(self) -> None:
        """Create the tables where they are missing, and bring those of version 1 up to date.

        Raises:
            StorageError: there are some of another version.
        """
        async with self._engine.begin() as connection:
            found = await connection.run_sync(create_tables)
            if found == 1:
                await connection.run_sync(add_columns)
                await fill_facets(connection)
                await connection.run_sync(note_version)
                found = TABLE_VERSION
        if found != TABLE_VERSION:
            raise StorageError(
                f"The runs in {self._engine.url.database} were written by another version of AgentFlow (table {found}, "
                f"not {TABLE_VERSION}): export what you need with the release that wrote them, then move the database "
                "away, or change storage.url."
            )

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction for several statements: all of them hold, or none.

        Raises:
            StorageError: the database refuses one.
        """
        try:
            async with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StorageError(self._explain(error)) from error

    async def write(self, statement: Any) -> int:
        """Return how many rows were written.

        Raises:
            StorageError: the database refuses it.
        """
        async with self.writing() as connection:
            return int((await connection.execute(statement)).rowcount)

    async def read(self, query: Any) -> Sequence[Any]:
        """Return the rows as mappings.

        Raises:
            StorageError: the database refuses it.
        """
        async with self.reading() as connection:
            return (await connection.execute(query)).mappings().all()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection to read from.

        Raises:
            StorageError: the database refuses it.
        """
        try:
            async with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StorageError(self._explain(error)) from error
