"""`agentflow traces diff`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.console.damage import DamageReport
from agentflow.options import AsJson, ConfigFile, Overrides, settings
from agentflow.traces.finding import find_all

if TYPE_CHECKING:
    from agentflow.traces.finding import Found

_ID = "A trajectory's id, or the beginning of it."


def diff(
    context: typer.Context,
    one: Annotated[str, typer.Argument(metavar="A", help=_ID, show_default=False)],
    other: Annotated[str, typer.Argument(metavar="B", help=_ID, show_default=False)],
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", metavar="FILE", help="Look here first, and then in the database."),
    ] = None,
    as_json: AsJson = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Whole texts, and other words too.")] = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Show where two trajectories of one question part ways. Exit status 0: they are equal; 1: they are not."""
    from agentflow.console.difference_view import print_difference
    from graph.traces.difference import difference

    config = settings(context, config_file, overrides).config
    with DamageReport() as report:
        a, b = asyncio.run(find_all(config, [one, other], file or [], report))
    found = difference(a.trajectory, b.trajectory)
    print_difference(found, (_place(a), _place(b)), as_json=as_json, verbose=verbose)
    if not found.equal:
        raise typer.Exit(1)


def _place(found: "Found") -> str:
    """Say where a trajectory is from, and whether there may be more of it."""
    if found.file is not None:
        return str(found.file)
    return "still running" if found.row is not None and found.row.status == "running" else ""
