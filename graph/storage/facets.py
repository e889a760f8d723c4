"""The `facets` table: the tags, tools and policies that runs are found by."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from graph.errors import StorageError
from graph.feedback import Feedback, with_feedback
from graph.storage.packing import unpack
from graph.storage.run_table import FACETS, FEEDBACK, RUNS, key_of
from graph.trace import Trajectory

Kind = Literal["tag", "tool", "policy"]
_PAGE = 50


async def note_facets(connection: AsyncConnection, run: str, facets: Mapping[Kind, Iterable[str]]) -> None:
    """Replace a run's facets of the kinds given."""
    await connection.execute(delete(FACETS).where(FACETS.c.run == run, FACETS.c.kind.in_(facets)))
    if rows := facet_rows(run, facets):
        await connection.execute(insert(FACETS), rows)


def facet_rows(run: str, facets: Mapping[Kind, Iterable[str]]) -> list[dict[str, str | None]]:
    """Return the rows of a run's facets, each once."""
    pairs = dict.fromkeys((kind, key_of(value)) for kind, values in facets.items() for value in values)
    return [{"run": run, "kind": kind, "value": value} for kind, value in pairs]


async def read_feedback(connection: AsyncConnection, runs: Sequence[str]) -> dict[str, list[Feedback]]:
    """Return what was said of each run, oldest first; runs of which nothing was said are left out."""
    query = select(FEEDBACK).where(FEEDBACK.c.run.in_(runs)).order_by(FEEDBACK.c.id)
    found: dict[str, list[Feedback]] = {}
    for row in (await connection.execute(query)).mappings():
        said = {name: row[name] for name in Feedback.model_fields}
        found.setdefault(row["run"], []).append(Feedback.model_validate(said))
    return found


async def note_reward(connection: AsyncConnection, trajectory: Trajectory) -> None:
    """Note the reward with which a run is exported, so that it is found by it."""
    remarks = await read_feedback(connection, [trajectory.id])
    shown = with_feedback(trajectory, remarks.get(trajectory.id, ()))
    values = {"reward": shown.reward, "reward_source": shown.reward_source}
    await connection.execute(update(RUNS).where(RUNS.c.id == trajectory.id).values(values))


async def fill_facets(connection: AsyncConnection) -> None:
    """Note the facets of every run of a table that had none."""
    last = ""
    while True:
        query = select(RUNS.c.id, RUNS.c.tags, RUNS.c.trajectory).where(RUNS.c.id > last).order_by(RUNS.c.id)
        rows = (await connection.execute(query.limit(_PAGE))).all()
        if not rows:
            return
        for run, tags, data in rows:
            await note_facets(connection, run, {"tag": tags, **_of(run, data)})
            last = run


def _of(run: str, data: bytes | None) -> dict[Kind, Sequence[str]]:
    """Return the facets of a stored trajectory; none for one that is missing or damaged, which others report."""
    try:
        found = unpack(run, data) if data is not None else None
    except StorageError:
        return {}
    return {"tool": found.used_tools, "policy": found.policies} if found else {}
