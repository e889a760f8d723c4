"""`agentflow traces stats`."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentflow.console.damage import DamageReport
from agentflow.console.terminal import complain
from agentflow.options import AsJson, ConfigFile, Overrides, settings
from agentflow.traces.options import Chosen, trajectories, with_filters

if TYPE_CHECKING:
    from graph.trace import Trajectory
    from graph.traces.statistics import GroupedStatistics


@with_filters
def stats(
    context: typer.Context,
    chosen: Chosen,
    by: Annotated[
        Literal["policy", "dataset", "source", "stop", "tool", "none"],
        typer.Option("--by", help="What to group trajectories by; policy is the planner's version."),
    ] = "policy",
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Show how trajectories ended, their rewards, turns and tools, and the tokens, seconds and cost of each role."""
    from agentflow.console.statistics_table import print_statistics
    from graph.traces.prices import Prices
    from graph.traces.statistics import GroupedStatistics

    config = settings(context, config_file, overrides).config
    grouped = GroupedStatistics(by, Prices(config.prices))
    with DamageReport() as report:
        count = asyncio.run(_add_up(trajectories(config, chosen, report), grouped))
    if not count and not as_json:
        complain("There are no such trajectories.")
        return
    print_statistics(grouped, as_json=as_json)


async def _add_up(found: "AsyncIterator[Trajectory]", grouped: "GroupedStatistics") -> int:
    """Take them one by one, and return how many there were."""
    count = 0
    async for trajectory in found:
        grouped.add(trajectory)
        count += 1
    return count
