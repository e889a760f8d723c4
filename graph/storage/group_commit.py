"""Commits of many runs, gathered."""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import aiosqlite

from graph.errors import StorageError

_GATHER_SECONDS = 0.02
"""How long a commit waits for company; what is lost to a kill in that time is done again by a resumed run."""
_BACKLOG = 1_000
"""Rows that may wait before those who bring more have to."""

Row = tuple[Any, ...]
_Taken = tuple[int, str, Row]
"""A number that grows from row to row, a statement, and its row."""


class GroupCommit:
    """Takes rows of runs in order, and commits whatever has come in as one transaction.

    What could not be committed is kept, and tried again when its run brings more or settles. A run whose rows are
    refused keeps no other from being committed.
    """

    def __init__(self, connection: aiosqlite.Connection, lock: asyncio.Lock) -> None:
        """`lock` is held around every use of the connection."""
        self._connection = connection
        self._lock = lock
        self._waiting: dict[str, list[_Taken]] = {}
        """By run, also while they are being committed."""
        self._taken = 0
        self._errors: dict[str, sqlite3.Error | StorageError] = {}
        """Why a run's rows were refused: they are left out until the run asks again."""
        self._told: set[str] = set()
        """Runs that know of their error."""
        self._timer: asyncio.TimerHandle | None = None
        self._flusher: asyncio.Task[None] | None = None
        self._progress: asyncio.Future[None] | None = None
        """Done when the next commit has succeeded or failed."""

    async def take(self, run: str, statement: str, rows: Sequence[Row]) -> None:
        """Take rows of `run` for `statement`; waits only when too many wait already.

        Raises:
            sqlite3.Error: the database refused this run's last commit, and does so again.
            StorageError: likewise, for another reason.
        """
        waiting = self._waiting.setdefault(run, [])
        for row in rows:
            self._taken += 1
            waiting.append((self._taken, statement, row))
        self._schedule()
        if run in self._errors or sum(len(waiting) for waiting in self._willing().values()) > _BACKLOG:
            await self.settle(run)

    async def settle(self, run: str) -> None:
        """Wait until everything of `run` that was taken before is committed.

        Raises:
            sqlite3.Error: the database refuses it.
            StorageError: likewise, for another reason.
        """
        last = self._taken
        self._errors.pop(run, None)
        while (waiting := self._waiting.get(run)) and waiting[0][0] <= last:
            if run in self._errors:
                self._told.add(run)
                raise self._errors[run]
            self._start()
            if self._progress is None:
                self._progress = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._progress)

    async def settle_all(self) -> None:
        """Wait until everything that was taken before is committed, or refused and its run knows.

        Raises:
            sqlite3.Error: the database refuses what a run wrote that does not know yet.
            StorageError: likewise, for another reason.
        """
        untold: sqlite3.Error | StorageError | None = None
        for run in list(self._waiting):
            told = run in self._told
            try:
                await self.settle(run)
            except (sqlite3.Error, StorageError) as error:
                untold = untold if told else error
        if untold is not None:
            raise untold

    async def forget(self, run: str) -> None:
        """Drop what waits of a run that is about to be deleted."""
        while self._flusher is not None:
            await asyncio.wait([self._flusher])
        self._waiting.pop(run, None)
        self._errors.pop(run, None)
        self._told.discard(run)

    async def close(self) -> None:
        """Commit what waits, and leave no timer behind.

        Raises:
            sqlite3.Error: the database refuses what a run wrote that does not know yet.
            StorageError: likewise, for another reason.
        """
        try:
            await self.settle_all()
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _willing(self) -> dict[str, list[_Taken]]:
        return {run: list(rows) for run, rows in self._waiting.items() if rows and run not in self._errors}

    def _schedule(self) -> None:
        if self._timer is None and self._flusher is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        batch = self._willing()
        try:
            if await self._try(batch) is not None:
                for run, rows in batch.items():
                    if (error := await self._try({run: rows})) is not None:
                        self._errors[run] = error
        finally:
            self._flusher = None
            if self._progress is not None:
                self._progress.set_result(None)
                self._progress = None
        if self._willing():
            self._schedule()

    async def _try(self, batch: Mapping[str, Sequence[_Taken]]) -> sqlite3.Error | StorageError | None:
        """Commit a batch, and return why it was refused."""
        try:
            await self._commit([taken for rows in batch.values() for taken in rows])
        except sqlite3.Error as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised to the runs that brought the rows
            refused = StorageError(f"What the run {', '.join(batch)} wrote cannot be saved ({error}): resume the run.")
            refused.__cause__ = error
            return refused
        for run, rows in batch.items():
            self._told.discard(run)
            # More may have come in meanwhile.
            del self._waiting[run][: len(rows)]
            if not self._waiting[run]:
                del self._waiting[run]
        return None

    async def _commit(self, batch: Sequence[_Taken]) -> None:
        by_statement: dict[str, list[Row]] = {}
        for _, statement, row in batch:
            by_statement.setdefault(statement, []).append(row)
        async with self._lock:
            try:
                for statement, rows in by_statement.items():
                    await self._connection.executemany(statement, rows)
                await self._connection.commit()
            except BaseException:
                with suppress(sqlite3.Error, ValueError):  # a connection that is closed has nothing to roll back
                    await self._connection.rollback()
                raise
