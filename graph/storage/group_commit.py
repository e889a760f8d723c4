"""Commits of many writers, gathered."""

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import Any

import aiosqlite

_GATHER_SECONDS = 0.005
"""How long a commit waits for company; what is lost to a kill in that time is done again by a resumed run."""
_BACKLOG = 1_000
"""Rows that may wait before those who bring more have to."""

Row = tuple[Any, ...]


class GroupCommit:
    """Takes rows in order, and commits whatever has come in as one transaction.

    What could not be committed is kept, and committed by a later attempt.
    """

    def __init__(self, connection: aiosqlite.Connection, lock: asyncio.Lock) -> None:
        """`lock` is held around every use of the connection."""
        self._connection = connection
        self._lock = lock
        self._waiting: list[tuple[str, Row]] = []
        self._taken = self._committed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flusher: asyncio.Task[None] | None = None
        self._progress: asyncio.Future[None] | None = None
        """Done when the next commit has succeeded or failed."""
        self._error: sqlite3.Error | None = None

    async def take(self, statement: str, rows: Sequence[Row]) -> None:
        """Take rows for `statement`; waits only when too many wait already.

        Raises:
            sqlite3.Error: the database refused the last commit, and does so again.
        """
        self._waiting.extend((statement, row) for row in rows)
        self._taken += len(rows)
        self._schedule()
        if self._error is not None or len(self._waiting) > _BACKLOG:
            await self.settle()

    async def settle(self) -> None:
        """Wait until everything that was taken before is committed.

        Raises:
            sqlite3.Error: the database refuses it.
        """
        taken = self._taken
        while self._committed < taken:
            self._start()
            if self._progress is None:
                self._progress = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._progress)
            if self._error is not None:
                raise self._error

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
        batch, self._waiting = self._waiting, []
        try:
            await self._commit(batch)
            self._committed += len(batch)
            self._error = None
        except sqlite3.Error as error:
            self._waiting, self._error = [*batch, *self._waiting], error
        finally:
            self._flusher = None
            if self._progress is not None:
                self._progress.set_result(None)
                self._progress = None
        if self._waiting and self._error is None:
            self._schedule()

    async def _commit(self, batch: Sequence[tuple[str, Row]]) -> None:
        by_statement: dict[str, list[Row]] = {}
        for statement, row in batch:
            by_statement.setdefault(statement, []).append(row)
        async with self._lock:
            try:
                for statement, rows in by_statement.items():
                    await self._connection.executemany(statement, rows)
                await self._connection.commit()
            except sqlite3.Error:
                await self._connection.rollback()
                raise
