"""LangGraph's saver for SQLite, with fewer transactions and without waiting for each of them."""

import json
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
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from graph.storage.group_commit import GroupCommit

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
        # An object of its own, as LangGraph works with copies of the saver.
        self._commits = GroupCommit(connection, self.lock)

    async def settle(self, run: str) -> None:
        """Wait until everything of a run that was taken before is committed.

        Raises:
            sqlite3.Error: the database refuses it.
            StorageError: likewise, for another reason.
        """
        await self._commits.settle(run)

    async def close(self) -> None:
        """Commit what waits; before the connection is closed.

        Raises:
            sqlite3.Error: the database refuses what a run wrote that does not know yet.
            StorageError: likewise, for another reason.
        """
        await self._commits.close()

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
        await self._commits.take(
            thread, _CHECKPOINT, [(thread, namespace, checkpoint["id"], parent, kind, data, about)]
        )
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
        await self._commits.take(address[0], _REPLACE if special else _IGNORE, rows)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read a checkpoint."""
        await self.settle(_run(config))
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
        await (self._commits.settle_all() if config is None else self.settle(_run(config)))
        async for found in super().alist(config, filter=filter, before=before, limit=limit):
            yield found

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Read the writes from which channels are rebuilt."""
        await self.settle(_run(config))
        return await super().aget_delta_channel_history(config=config, channels=channels)

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove a run's checkpoints."""
        await self._commits.forget(thread_id)
        await super().adelete_thread(thread_id)


def _run(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])
