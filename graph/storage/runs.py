"""The `runs` table: one row per trajectory, which lists, filters and exports read."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import delete, desc, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from graph.errors import ConfigError, StorageError
from graph.state import Request
from graph.storage.compression import compress, decompress
from graph.storage.owner import host_name, is_elsewhere, is_gone, process_id, this_process
from graph.storage.run_table import RUNS, TABLE_VERSION, create_table
from graph.trace import Trajectory

Status = Literal["running", "finished", "failed", "cancelled"]


@dataclass(frozen=True)
class RunRow:
    """One run, without its trajectory."""

    id: str
    conversation: str | None
    parent: str | None
    question: str
    status: Status
    """`running` also when its process died: `interrupted` tells."""
    stop: str | None
    answer: str | None
    turns: int | None
    seconds: float | None
    error: str | None
    owner: str | None
    """Mark of the process that drives it, or drove it last."""
    tags: list[str]
    created: float
    updated: float

    @property
    def interrupted(self) -> bool:
        """Whether the process that drove it is gone without a word."""
        return self.status == "running" and is_gone(self.owner)


_ROW = [RUNS.c[name] for name in RunRow.__dataclass_fields__]


class RunStore:
    """Reads and writes the table, on SQLite and PostgreSQL alike."""

    def __init__(self, engine: AsyncEngine, explain: Callable[[Exception], str]) -> None:
        self._engine = engine
        self._explain = explain

    async def create(self) -> None:
        """Create the table where it is missing.

        Raises:
            StorageError: there is one of another version.
        """
        async with self._engine.begin() as connection:
            found = await connection.run_sync(create_table)
        if found != TABLE_VERSION:
            raise StorageError(
                f"The runs in {self._engine.url.database} were written by another version of AgentFlow (table {found}, "
                f"not {TABLE_VERSION}): export what you need with the release that wrote them, then move the database "
                "away, or change storage.url."
            )

    async def start(self, run: str, request: Request) -> None:
        """Note that a run has started, before its first call."""
        now = time.time()
        row = {
            "id": run,
            "question": request.question,
            "request": request.model_dump_json(),
            "conversation": request.conversation,
            "parent": request.parent,
            "tags": list(request.tags),
            "status": "running",
            "owner": this_process(),
            "created": now,
            "updated": now,
        }
        await self._write(insert(RUNS).values(row))

    async def request(self, run: str) -> Request | None:
        """Return what was asked; None where there is no such run.

        Raises:
            StorageError: it is damaged.
        """
        rows = await self._read(select(RUNS.c.request).where(RUNS.c.id == run))
        try:
            return Request.model_validate_json(rows[0]["request"]) if rows else None
        except ValueError as error:
            raise StorageError(f"The row of the run {run} is damaged: delete the run.") from error

    async def resume(self, run: str, *, force: bool = False) -> None:
        """Note that a run goes on in this process.

        Args:
            run: its id.
            force: also when it was driven by another machine or container, which may still do so.

        Raises:
            ConfigError: it still goes on in another one.
        """
        row = await self.get(run)
        if row is None:
            return
        if row.owner != this_process():
            refuse_busy(row, force=force)
        values = {"status": "running", "error": None, "owner": this_process(), "updated": time.time()}
        # Of two that resume it at once, one claims it.
        seen = RUNS.c.id == row.id, RUNS.c.owner.is_not_distinct_from(row.owner), RUNS.c.updated == row.updated
        if not await self._write(update(RUNS).where(*seen).values(values)):
            raise ConfigError(
                f"The run {run} was just taken up by another process: wait for its end, or stop that one."
            )

    async def finish(self, run: str, status: Status, trajectory: Trajectory, *, error: str | None = None) -> None:
        """Write how a run ended, with its trajectory."""
        values = {
            "status": status,
            "stop": trajectory.stop,
            "answer": trajectory.answer,
            "turns": len(trajectory.turns),
            "seconds": trajectory.seconds,
            "error": error,
            "updated": time.time(),
            "trajectory": await asyncio.to_thread(_pack, trajectory),
        }
        await self._write(update(RUNS).where(RUNS.c.id == run).values(values))

    async def delete(self, run: str) -> None:
        """Remove a row."""
        await self._write(delete(RUNS).where(RUNS.c.id == run))

    async def get(self, run: str) -> RunRow | None:
        """Return one run; an unambiguous beginning of its id will do.

        Raises:
            ConfigError: several runs begin so.
        """
        query = select(*_ROW).where(RUNS.c.id.startswith(run, autoescape=True)).limit(2)
        rows = await self._read(query)
        if len(rows) > 1:
            raise ConfigError(f"Several runs begin with {run!r}: give more of the id.")
        return RunRow(**rows[0]) if rows else None

    async def latest(self, limit: int = 20, *, status: Status | None = None, text: str | None = None) -> list[RunRow]:
        """Return the latest runs, newest first."""
        query = select(*_ROW).order_by(desc(RUNS.c.created)).limit(limit)
        if status:
            query = query.where(RUNS.c.status == status)
        if text:
            query = query.where(RUNS.c.question.icontains(text, autoescape=True))
        return [RunRow(**row) for row in await self._read(query)]

    async def conversation(self, conversation: str) -> list[RunRow]:
        """Return the finished runs of a conversation, oldest first.

        Forks are left out: they are other ways to an answer that was given, not further questions.
        """
        finished = RUNS.c.conversation == conversation, RUNS.c.status == "finished", RUNS.c.parent.is_(None)
        query = select(*_ROW).where(*finished)
        return [RunRow(**row) for row in await self._read(query.order_by(RUNS.c.created))]

    async def trajectory(self, run: str) -> Trajectory | None:
        """Return a finished run's trajectory.

        Raises:
            StorageError: it is damaged.
        """
        rows = await self._read(select(RUNS.c.trajectory).where(RUNS.c.id == run))
        data = rows[0]["trajectory"] if rows else None
        if data is None:
            return None
        try:
            return Trajectory.model_validate_json(decompress(data))
        except ValueError as error:
            raise StorageError(f"The trajectory of the run {run} is damaged: delete the run.") from error

    async def _write(self, statement: Any) -> int:
        """Return how many rows were written."""
        try:
            async with self._engine.begin() as connection:
                return int((await connection.execute(statement)).rowcount)
        except SQLAlchemyError as error:
            raise StorageError(self._explain(error)) from error

    async def _read(self, query: Any) -> Sequence[Any]:
        try:
            async with self._engine.connect() as connection:
                return (await connection.execute(query)).mappings().all()
        except SQLAlchemyError as error:
            raise StorageError(self._explain(error)) from error


def refuse_busy(row: RunRow, *, force: bool) -> None:
    """Refuse a run that another process still drives, or may.

    Args:
        row: the run.
        force: take the user's word that a process of another machine or container is gone.

    Raises:
        ConfigError: it may be driven.
    """
    if row.status != "running" or row.interrupted or row.owner is None:
        return
    if not is_elsewhere(row.owner):
        raise ConfigError(
            f"The run {row.id} still goes on in another process ({process_id(row.owner)}): stop that one, or wait for "
            "its end."
        )
    if not force:
        raise ConfigError(
            f"The run {row.id} was last driven in another machine or container ({host_name(row.owner)}), and may still "
            "go on there: stop it there, or add --force if that is certainly gone."
        )


def _pack(trajectory: Trajectory) -> bytes:
    """Return what is stored: prompts make it megabytes, most of which repeat each other."""
    return compress(trajectory.model_dump_json().encode(), level=1)
