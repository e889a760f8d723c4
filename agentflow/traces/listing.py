"""`agentflow traces list`."""

import asyncio
import heapq
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.console.damage import DamageReport
from agentflow.console.terminal import PlainConsole
from agentflow.options import AsJson, ConfigFile, Overrides, settings
from agentflow.storage import is_there, open_existing
from agentflow.traces.options import Chosen, resolved, trajectories, with_filters

if TYPE_CHECKING:
    from agentflow.console.trace_table import TraceRow
    from graph.config import FlowConfig


@with_filters
def list_traces(
    context: typer.Context,
    chosen: Chosen,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """List the latest trajectories, newest first."""
    from agentflow.console.trace_table import print_traces

    config = settings(context, config_file, overrides).config
    rows = asyncio.run(_of_files(config, chosen, limit) if chosen.files else _of_database(config, chosen, limit))
    if not rows and not as_json:
        PlainConsole(stderr=True).print("There are no such trajectories.")
        return
    print_traces(rows, as_json=as_json)


async def _of_database(config: "FlowConfig", chosen: Chosen, limit: int) -> "list[TraceRow]":
    from agentflow.console.trace_table import TraceRow

    if not is_there(config):
        return []
    async with open_existing(config) as database:
        rows = await database.traces.rows(await resolved(database, chosen.selection), limit=limit)
        facets = await database.traces.facets([row.id for row in rows])
    return [TraceRow.stored(row, policies=facets[row.id]["policy"], tools=facets[row.id]["tool"]) for row in rows]


async def _of_files(config: "FlowConfig", chosen: Chosen, limit: int) -> "list[TraceRow]":
    from agentflow.console.trace_table import TraceRow

    latest: list[tuple[float, int, TraceRow]] = []
    number = 0
    with DamageReport() as report:
        async for found in trajectories(config, chosen, report):
            number += 1
            heapq.heappush(latest, (found.created or 0.0, number, TraceRow.of(found)))
            if len(latest) > limit:
                heapq.heappop(latest)
    return [row for _, _, row in sorted(latest, key=lambda entry: entry[:2], reverse=True)]
