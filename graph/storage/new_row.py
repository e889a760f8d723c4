"""The row of a trajectory that was not run here, but comes from a file."""

import time
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from graph.plain import plain_text
from graph.records import StopReason
from graph.state import Request
from graph.storage.packing import pack
from graph.storage.run_table import RUNS, key_of
from graph.storage.runs import Status
from graph.trace import Trajectory

_STATUSES: dict[StopReason | None, Status] = {StopReason.FAILED: "failed", StopReason.CANCELLED: "cancelled"}


def new_row(found: Trajectory) -> dict[str, Any]:
    """Return the values of the row. What people said of it is kept in a table of its own."""
    now = time.time()
    fields = found.model_dump(include=set(Request.model_fields)) | {"created": found.created or 0.0}
    return {
        "id": found.id,
        "question": plain_text(found.question),
        "request": Request.model_validate(fields).model_dump_json(),
        "conversation": key_of(found.conversation),
        "parent": key_of(found.parent),
        "source": found.source,
        "dataset": key_of(found.dataset),
        "group": key_of(found.group),
        "tags": [plain_text(tag) for tag in found.tags],
        "status": _STATUSES.get(found.stop, "finished"),
        "stop": found.stop,
        "answer": None if found.answer is None else plain_text(found.answer),
        "turns": len(found.turns),
        "seconds": found.seconds,
        "error": None if found.error is None else plain_text(found.error),
        "reward": found.reward,
        "reward_source": None if found.reward_source is None else plain_text(found.reward_source),
        "created": now if found.created is None else found.created,
        "updated": now,
        "trajectory": pack(found.model_copy(update={"feedback": ()})),
    }


def insert_new(connection: AsyncConnection, row: dict[str, Any]) -> Any:
    """Return the statement that inserts a row unless one of its id is there, and then returns the id."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(RUNS).values(row).on_conflict_do_nothing().returning(RUNS.c.id)
    return postgresql.insert(RUNS).values(row).on_conflict_do_nothing().returning(RUNS.c.id)
