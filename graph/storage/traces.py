"""The trajectories in the `runs` table: chosen, streamed, added, and what people said of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, desc, exists, func, insert, or_, select

from graph.feedback import Feedback, with_feedback
from graph.plain import plain_text
from graph.storage.facets import Kind, facet_rows, note_reward, read_feedback
from graph.storage.new_row import insert_new, new_row
from graph.storage.packing import unpack
from graph.storage.run_table import FACETS, FEEDBACK, RUNS, key_of
from graph.storage.runs import ROW, RunRow
from graph.storage.tables import Tables
from graph.trace import Trajectory
from graph.traces.selection import Selection

_PAGE = 32
"""Trajectories that are in memory at once."""


class TraceStore:
    """Reads and writes trajectories of runs that have ended."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def rows(self, selection: Selection, *, limit: int) -> list[RunRow]:
        """Return the latest runs that are chosen, newest first."""
        query = select(*ROW).where(*_conditions(selection)).order_by(desc(RUNS.c.created), desc(RUNS.c.id))
        return [RunRow(**row) for row in await self._tables.read(query.limit(limit))]

    async def count(self, selection: Selection) -> int:
        """Return how many are chosen."""
        query = select(func.count()).select_from(RUNS).where(*_conditions(selection))
        return int((await self._tables.read(query))[0]["count_1"])

    async def stream(self, selection: Selection) -> AsyncIterator[Trajectory]:
        """Yield the chosen trajectories, oldest first, as they are exported: with what people said of them.

        Memory stays constant, however many there are.

        Raises:
            StorageError: one is damaged, or the database cannot be read.
        """
        wanted = select(RUNS.c.id, RUNS.c.created, RUNS.c.trajectory).where(*_conditions(selection))
        query: Select[Any] = wanted.order_by(RUNS.c.created, RUNS.c.id).limit(_PAGE)
        page = await self._tables.read(query)
        while page:
            remarks = await self._remarks([row["id"] for row in page])
            for found in await asyncio.to_thread(_unpack_page, page):
                yield with_feedback(found, remarks.get(found.id, ()))
            last = page[-1]
            after = or_(
                RUNS.c.created > last["created"], and_(RUNS.c.created == last["created"], RUNS.c.id > last["id"])
            )
            page = await self._tables.read(query.where(after))

    async def facets(self, runs: Sequence[str]) -> dict[str, dict[Kind, list[str]]]:
        """Return the tags, tools and policies of each run, in alphabetical order."""
        query = select(FACETS).where(FACETS.c.run.in_(runs)).order_by(FACETS.c.value)
        found: dict[str, dict[Kind, list[str]]] = {run: {"tag": [], "tool": [], "policy": []} for run in runs}
        for row in await self._tables.read(query):
            found[row["run"]][row["kind"]].append(row["value"])
        return found

    async def get(self, run: str) -> Trajectory | None:
        """Return one trajectory as it is exported; None where there is none, or the run has not ended.

        Raises:
            StorageError: it is damaged.
        """
        rows = await self._tables.read(select(RUNS.c.trajectory).where(RUNS.c.id == run))
        if not rows or rows[0]["trajectory"] is None:
            return None
        return with_feedback(unpack(run, rows[0]["trajectory"]), await self.feedback(run))

    async def add(self, trajectory: Trajectory) -> bool:
        """Add a trajectory from elsewhere, with its feedback; False where a run of its id is there already."""
        return await self.add_many([trajectory]) == 1

    async def add_many(self, trajectories: Sequence[Trajectory]) -> int:
        """Add trajectories from elsewhere in one transaction, and return how many were not there already."""
        rows = await asyncio.to_thread(lambda: [new_row(found) for found in trajectories])
        added: list[Trajectory] = []
        async with self._tables.writing() as connection:
            for found, row in zip(trajectories, rows, strict=True):
                if await connection.scalar(insert_new(connection, row)) is not None:
                    added.append(found)
            facets = [facet for found in added for facet in facet_rows(found.id, _facets(found))]
            remarks = [_said(found.id, remark) for found in added for remark in found.feedback]
            for table, new in ((FACETS, facets), (FEEDBACK, remarks)):
                if new:
                    await connection.execute(insert(table), new)
        return len(added)

    async def feedback(self, run: str) -> list[Feedback]:
        """Return what was said of a run, oldest first."""
        return (await self._remarks([run])).get(run, [])

    async def say(self, run: str, remark: Feedback) -> None:
        """Keep what a person says of a run.

        Args:
            run: its whole id; the run is there, ended or not.
            remark: what is said.
        """
        await self._change_feedback(run, insert(FEEDBACK).values(_said(run, remark)))

    async def withdraw(self, run: str) -> int:
        """Forget everything that was said of a run, and return how many remarks that were."""
        return await self._change_feedback(run, delete(FEEDBACK).where(FEEDBACK.c.run == run))

    async def _change_feedback(self, run: str, statement: Any) -> int:
        """Run a statement and note the reward that follows, where nobody else does so for the same run."""
        mine = select(RUNS.c.trajectory).where(RUNS.c.id == run).with_for_update()
        async with self._tables.writing() as connection:
            data = (await connection.execute(mine)).scalar()
            changed = int((await connection.execute(statement)).rowcount)
            if data is not None:
                await note_reward(connection, unpack(run, data))
        return changed

    async def _remarks(self, runs: Sequence[str]) -> dict[str, list[Feedback]]:
        async with self._tables.reading() as connection:
            return await read_feedback(connection, runs)


def _conditions(chosen: Selection) -> list[ColumnElement[bool]]:
    """Return the filters as SQL. Only runs that have ended have a trajectory."""
    held: list[ColumnElement[bool]] = [RUNS.c.trajectory.is_not(None), RUNS.c.status != "running"]
    if chosen.since is not None:
        held.append(RUNS.c.created >= chosen.since)
    if chosen.until is not None:
        held.append(RUNS.c.created < chosen.until)
    named = {name: getattr(chosen, name) for name in ("conversation", "group", "dataset", "source", "stop")}
    held += [RUNS.c[name] == key_of(value) for name, value in named.items() if value is not None]
    if chosen.scored is not None:
        held.append(RUNS.c.reward.is_not(None) if chosen.scored else RUNS.c.reward.is_(None))
    if chosen.min_reward is not None:
        held.append(RUNS.c.reward >= chosen.min_reward)
    if chosen.max_reward is not None:
        held.append(RUNS.c.reward <= chosen.max_reward)
    if chosen.text is not None:
        held.append(RUNS.c.question.icontains(chosen.text, autoescape=True))
    facets = [("tag", tag) for tag in chosen.tags] + [("tool", chosen.tool), ("policy", chosen.policy)]
    return held + [_has(kind, value) for kind, value in facets if value is not None]


def _has(kind: str, value: str) -> ColumnElement[bool]:
    return exists().where(FACETS.c.run == RUNS.c.id, FACETS.c.kind == kind, FACETS.c.value == key_of(value))


def _unpack_page(page: Sequence[Any]) -> list[Trajectory]:
    return [unpack(row["id"], row["trajectory"]) for row in page]


def _said(run: str, remark: Feedback) -> dict[str, Any]:
    said = {name: plain_text(v) if isinstance(v, str) else v for name, v in remark.model_dump().items()}
    return {"run": run, **said}


def _facets(found: Trajectory) -> dict[Kind, Sequence[str]]:
    return {"tag": found.tags, "tool": found.used_tools, "policy": found.policies}
