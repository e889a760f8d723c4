"""The `runs` table: one row per run, from its start."""

import asyncio
import time
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import delete, desc, insert, select, update

from graph.errors import ConfigError, StorageError
from graph.state import Request
from graph.storage.facets import note_facets, note_reward
from graph.storage.owner import host_name, is_elsewhere, is_gone, process_id, this_process
from graph.storage.packing import pack, unpack
from graph.storage.run_table import FACETS, FEEDBACK, RUNS, key_of
from graph.storage.tables import Tables
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
    source: str | None = None
    dataset: str | None = None
    group: str | None = None
    reward: float | None = None
    """As it is exported: a person's verdict goes before a scorer's."""
    reward_source: str | None = None

    @property
    def interrupted(self) -> bool:
        """Whether the process that drove it is gone without a word."""
        return self.status == "running" and is_gone(self.owner)


LAST = "last"
"""Stands for the id of the latest run."""
ROW = [RUNS.c[name] for name in RunRow.__dataclass_fields__]
"""The columns of a RunRow."""


class RunStore:
    """Reads and writes the table, on SQLite and PostgreSQL alike."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def start(self, run: str, request: Request) -> None:
        """Note that a run has started, before its first call."""
        now = time.time()
        row = {
            "id": run,
            "question": request.question,
            "request": request.model_dump_json(),
            "conversation": key_of(request.conversation),
            "parent": request.parent,
            "source": request.source,
            "dataset": key_of(request.dataset),
            "group": key_of(request.group),
            "tags": list(request.tags),
            "status": "running",
            "owner": this_process(),
            "created": now,
            "updated": now,
        }
        async with self._tables.writing() as connection:
            await connection.execute(insert(RUNS).values(row))
            await note_facets(connection, run, {"tag": request.tags})

    async def request(self, run: str) -> Request | None:
        """Return what was asked; None where there is no such run.

        Raises:
            StorageError: it is damaged.
        """
        rows = await self._tables.read(select(RUNS.c.request).where(RUNS.c.id == run))
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
        if not await self._tables.write(update(RUNS).where(*seen).values(values)):
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
            "trajectory": await asyncio.to_thread(pack, trajectory),
        }
        async with self._tables.writing() as connection:
            await connection.execute(update(RUNS).where(RUNS.c.id == run).values(values))
            await note_facets(connection, run, {"tool": trajectory.used_tools, "policy": trajectory.policies})
            await note_reward(connection, trajectory)

    async def delete(self, run: str) -> None:
        """Remove a run's rows."""
        async with self._tables.writing() as connection:
            for table, column in ((FACETS, FACETS.c.run), (FEEDBACK, FEEDBACK.c.run), (RUNS, RUNS.c.id)):
                await connection.execute(delete(table).where(column == run))

    async def get(self, run: str) -> RunRow | None:
        """Return one run; an unambiguous beginning of its id will do, and `last` is the latest one.

        Raises:
            ConfigError: several runs begin so.
        """
        if run == LAST:
            return next(iter(await self.latest(1)), None)
        query = select(*ROW).where(RUNS.c.id.startswith(run, autoescape=True)).limit(2)
        rows = await self._tables.read(query)
        if len(rows) > 1:
            raise ConfigError(f"Several runs begin with {run!r}: give more of the id.")
        return RunRow(**rows[0]) if rows else None

    async def latest(self, limit: int = 20, *, status: Status | None = None, text: str | None = None) -> list[RunRow]:
        """Return the latest runs, newest first."""
        query = select(*ROW).order_by(desc(RUNS.c.created)).limit(limit)
        if status:
            query = query.where(RUNS.c.status == status)
        if text:
            query = query.where(RUNS.c.question.icontains(text, autoescape=True))
        return [RunRow(**row) for row in await self._tables.read(query)]

    async def conversation(self, conversation: str) -> list[RunRow]:
        """Return the finished runs of a conversation, oldest first.

        Forks are left out: they are other ways to an answer that was given, not further questions.
        """
        finished = RUNS.c.conversation == key_of(conversation), RUNS.c.status == "finished", RUNS.c.parent.is_(None)
        query = select(*ROW).where(*finished)
        return [RunRow(**row) for row in await self._tables.read(query.order_by(RUNS.c.created))]

    async def trajectory(self, run: str) -> Trajectory | None:
        """Return a finished run's trajectory.

        Raises:
            StorageError: it is damaged.
        """
        rows = await self._tables.read(select(RUNS.c.trajectory).where(RUNS.c.id == run))
        data = rows[0]["trajectory"] if rows else None
        return None if data is None else unpack(run, data)


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
