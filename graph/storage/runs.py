"""The `runs` table: one row per trajectory, which lists, filters and exports read."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import (
    JSON,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    delete,
    desc,
    insert,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from graph.errors import ConfigError, StorageError
from graph.storage.compression import compress, decompress
from graph.storage.owner import is_gone, this_process
from graph.trace import Trajectory

Status = Literal["running", "finished", "failed", "cancelled"]

_METADATA = MetaData()
RUNS = Table(
    "runs",
    _METADATA,
    Column("id", String(36), primary_key=True),
    Column("conversation", String(64), index=True),
    Column("parent", String(36)),
    Column("question", Text, nullable=False),
    Column("status", String(16), nullable=False, index=True),
    Column("stop", String(16)),
    Column("answer", Text),
    Column("turns", Integer),
    Column("seconds", Float),
    Column("error", Text),
    Column("owner", Text),
    Column("tags", JSON, nullable=False),
    Column("created", Float, nullable=False, index=True),
    Column("updated", Float, nullable=False),
    Column("trajectory", LargeBinary),
)


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
        """Create the table where it is missing."""
        async with self._engine.begin() as connection:
            await connection.run_sync(_METADATA.create_all)

    async def start(
        self, run: str, question: str, *, conversation: str | None, parent: str | None, tags: Sequence[str]
    ) -> None:
        """Note that a run has started, before its first call."""
        now = time.time()
        row = {
            "id": run,
            "question": question,
            "conversation": conversation,
            "parent": parent,
            "tags": list(tags),
            "status": "running",
            "owner": this_process(),
            "created": now,
            "updated": now,
        }
        await self._write(insert(RUNS).values(row))

    async def resume(self, run: str) -> None:
        """Note that a run goes on in this process.

        Raises:
            ConfigError: it still goes on in another one.
        """
        row = await self.get(run)
        if row is None:
            return
        busy = row.status == "running" and row.owner != this_process() and not row.interrupted
        values = {"status": "running", "error": None, "owner": this_process(), "updated": time.time()}
        # Of two that resume it at once, one claims it.
        seen = RUNS.c.id == row.id, RUNS.c.owner.is_not_distinct_from(row.owner), RUNS.c.updated == row.updated
        if busy or not await self._write(update(RUNS).where(*seen).values(values)):
            raise ConfigError(f"The run {run} still goes on in another process: stop that one, or wait for its end.")

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
            StorageError: several runs begin so.
        """
        query = select(*_ROW).where(RUNS.c.id.startswith(run, autoescape=True)).limit(2)
        rows = await self._read(query)
        if len(rows) > 1:
            raise StorageError(f"Several runs begin with {run!r}: give more of the id.")
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
        """Return the finished runs of a conversation, oldest first."""
        query = select(*_ROW).where(RUNS.c.conversation == conversation, RUNS.c.status == "finished")
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


def _pack(trajectory: Trajectory) -> bytes:
    """Return what is stored: prompts make it megabytes, most of which repeat each other."""
    return compress(trajectory.model_dump_json().encode(), level=1)
