"""The trajectory of a run that is in the database, whether it has ended or not."""

from typing import cast

from langchain_core.runnables import RunnableConfig

from graph.flow import build_flow
from graph.projection import project
from graph.records import StopReason
from graph.snapshot import read_snapshot
from graph.state import FlowState
from graph.storage.database import Database
from graph.storage.runs import RunRow
from graph.trace import Trajectory


async def trajectory_of(database: Database, row: RunRow) -> Trajectory:
    """Return what was written when the run ended, or else what its checkpoints hold so far (`stop` is CANCELLED).

    What people said of a run that has ended is part of it.

    Raises:
        StorageError: the database cannot be read, or what is in it is damaged.
    """
    if row.status != "running" and (written := await database.traces.get(row.id)):
        return written
    address: RunnableConfig = {"configurable": {"thread_id": row.id}}
    state = cast("FlowState", (await read_snapshot(build_flow(database.saver), address)).values)
    if "request" in state:
        return project(row.id, state, stop=StopReason.CANCELLED)
    return Trajectory(id=row.id, question=row.question, stop=StopReason.CANCELLED, created=row.created)
