"""LangGraph's saver for SQLite, with fewer transactions and without waiting for each of them."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    SerializerProtocol,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

_CHECKPOINT = (
    "INSERT OR REPLACE INTO checkpoints "
    "(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_WRITES = (
    "INSERT OR {} INTO writes "
    "(thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_REPLACE, _IGNORE = _WRITES.format("REPLACE"), _WRITES.format("IGNORE")

_GATHER_SECONDS = 0.005
"""How long a commit waits for company; what is lost to a kill in that time is done again by a resumed run."""
_BACKLOG = 1_000
"""Writes that may wait before their runs have to."""


class GroupCommitSaver(AsyncSqliteSaver):
    """AsyncSqliteSaver that takes writes in order and commits whatever has come in as one transaction.

    Rows and tables are the library's. There, every write is a transaction of its own and each checkpoint waits for the
    one before, so that a disk that is slow for a moment makes a run lag behind by seconds; here a write waits for a few
    milliseconds and one commit, and hundreds of runs at once share theirs. A write returns when it is taken: `settle`
    waits for the disk, and reads see everything that was taken before them. What could not be committed is kept, and
    committed by a later attempt.
    """

    def __init__(self, connection: aiosqlite.Connection, *, serde: SerializerProtocol) -> None:
        super().__init__(connection, serde=serde)
        self._waiting: list[tuple[str, tuple[Any, ...]]] = []
        self._taken = self._committed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flusher: asyncio.Task[None] | None = None
        self._progress: asyncio.Future[None] | None = None
        """Done when the next commit has succeeded or failed."""
        self._error: sqlite3.Error | None = None

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

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - the library's signature
        """Return the version after `current`, in an order that text keeps: versions are most of a checkpoint."""
        return f"{int(current or 0) + 1:08}"

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - the library's signature
    ) -> RunnableConfig:
        """Take a checkpoint."""
        where = config["configurable"]
        kind, data = self.serde.dumps_typed(checkpoint)
        about = json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False).encode("utf-8", "ignore")
        thread, namespace, parent = str(where["thread_id"]), where["checkpoint_ns"], where.get("checkpoint_id")
        await self._take(_CHECKPOINT, [(thread, namespace, checkpoint["id"], parent, kind, data, about)])
        saved = {"thread_id": where["thread_id"], "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}
        return {"configurable": saved}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Take what a task wrote."""
        where = config["configurable"]
        address = str(where["thread_id"]), str(where["checkpoint_ns"]), str(where["checkpoint_id"]), task_id, task_path
        rows = [
            (*address, WRITES_IDX_MAP.get(channel, index), channel, *self.serde.dumps_typed(value))
            for index, (channel, value) in enumerate(writes)
        ]
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        await self._take(_REPLACE if special else _IGNORE, rows)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read a checkpoint."""
        await self.settle()
        return await super().aget_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the library's signature
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Read checkpoints, newest first."""
        await self.settle()
        async for found in super().alist(config, filter=filter, before=before, limit=limit):
            yield found

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Read the writes from which channels are rebuilt."""
        await self.settle()
        return await super().aget_delta_channel_history(config=config, channels=channels)

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove a run's checkpoints."""
        await self.settle()
        await super().adelete_thread(thread_id)

    async def _take(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._waiting.extend((statement, row) for row in rows)
        self._taken += len(rows)
        if self._error is not None:
            await self.settle()
        self._schedule()
        if len(self._waiting) > _BACKLOG:
            await self.settle()

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

    async def _commit(self, batch: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        await self.setup()
        async with self.lock:
            try:
                for statement in (_CHECKPOINT, _REPLACE, _IGNORE):
                    if rows := [row for known, row in batch if known == statement]:
                        await self.conn.executemany(statement, rows)
                await self.conn.commit()
            except sqlite3.Error:
                await self.conn.rollback()
                raise
