"""`agentflow runs`: what was asked before, and going on from it."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentflow.console.terminal import PlainConsole
from agentflow.options import AsJson, ConfigFile, NoStream, Overrides, RunId, Verbose, settings
from agentflow.session import View, show_run
from agentflow.storage import find_run, is_there, open_existing

if TYPE_CHECKING:
    from graph.config import FlowConfig
    from graph.events import Event
    from graph.runner import Runner
    from graph.storage.runs import RunRow
    from graph.trace import Trajectory

app = typer.Typer(no_args_is_help=True, help="List, show, resume, fork and delete runs.")

Force = Annotated[
    bool, typer.Option("--force", help="Also when another machine or container drove it, and may still do so.")
]
Status = Literal["running", "interrupted", "finished", "failed", "cancelled"]
_MANY = 100_000


@app.command("list")
def list_runs(
    context: typer.Context,
    status: Annotated[Status | None, typer.Option(help="Only runs in this state.")] = None,
    text: Annotated[str | None, typer.Option(help="Only runs whose question holds this text.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """List the latest runs, newest first."""
    config = settings(context, config_file, overrides).config
    rows = asyncio.run(_latest(config, status, text, limit)) if is_there(config) else []
    if not rows and not as_json:
        PlainConsole(stderr=True).print("There are no such runs." if status or text else "There are no runs yet.")
        return
    from agentflow.console.run_table import print_runs  # reads the table's row type, which is slow to load

    print_runs(rows, as_json=as_json)


@app.command("show")
def show(
    context: typer.Context,
    run: RunId,
    as_json: AsJson = False,
    verbose: Verbose = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Show a run's turns and answer, also of a run that has not ended; --json prints its trajectory."""
    config = settings(context, config_file, overrides).config
    row, trajectory = asyncio.run(_stored(config, run))
    if as_json:
        print(json.dumps(trajectory.model_dump(mode="json")))
        return
    from agentflow.console.replay import replay
    from agentflow.console.run_state import print_state
    from agentflow.console.story import Story
    from graph.events import EventKind

    console = PlainConsole()
    with Story(console, stream=False, verbose=verbose) as story:
        for event in replay(trajectory):
            if event.kind is not EventKind.DONE or row.status != "running":
                story(event)
    print_state(console, row, trajectory.error)


@app.command("resume")
def resume(
    context: typer.Context,
    run: RunId,
    force: Force = False,
    as_json: AsJson = False,
    no_stream: NoStream = False,
    verbose: Verbose = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Go on with a run that was stopped or failed, without repeating what it had finished."""
    from graph.errors import ConfigError

    config = settings(context, config_file, overrides).config
    row = asyncio.run(_row(config, run))
    if row.status == "finished":
        raise ConfigError(f"The run {row.id} has ended ({row.stop}): ask again, or fork it from one of its turns.")

    async def work(runner: "Runner", on_event: "Callable[[Event], None]") -> "Trajectory":
        return await runner.resume(row.id, on_event=on_event, force=force)

    show_run(config, View(as_json=as_json, stream=not no_stream, verbose=verbose), work, question=row.question)


@app.command("fork")
def fork(
    context: typer.Context,
    run: RunId,
    turn: Annotated[int, typer.Option(min=1, help="The turn to take another way from; those before it are kept.")],
    sub_goal: Annotated[
        str | None, typer.Option(help="That turn's sub-goal; without it the planner plans anew.")
    ] = None,
    tool: Annotated[str | None, typer.Option(help="That turn's tool; goes with --sub-goal.")] = None,
    as_json: AsJson = False,
    no_stream: NoStream = False,
    verbose: Verbose = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Branch a new run off a past turn; the old run stays as it is."""
    config = settings(context, config_file, overrides).config
    row = asyncio.run(_row(config, run))

    async def work(runner: "Runner", on_event: "Callable[[Event], None]") -> "Trajectory":
        from graph.fork import fork_run

        new = await fork_run(runner, row.id, turn=turn, sub_goal=sub_goal, tool=tool)
        return await runner.drive_fork(new, on_event=on_event)

    show_run(config, View(as_json=as_json, stream=not no_stream, verbose=verbose), work, question=row.question)


@app.command("delete")
def delete(
    context: typer.Context,
    run: RunId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Force = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Delete a run with everything it left."""
    from agentflow.console.text import one_line, shorten
    from graph.errors import ConfigError
    from graph.storage.runs import refuse_busy

    config = settings(context, config_file, overrides).config
    row = asyncio.run(_row(config, run))
    refuse_busy(row, force=force)
    if not yes:
        if sys.stdin is None or not sys.stdin.isatty():
            raise ConfigError("Nothing was deleted: add --yes, as there is no terminal to ask on.")
        typer.confirm(f"Delete run {row.id} ({shorten(one_line(row.question), lines=1, chars=60)})?", abort=True)
    asyncio.run(_delete(config, row.id))
    print(f"Deleted {row.id}.")


async def _latest(config: "FlowConfig", status: Status | None, text: str | None, limit: int) -> "list[RunRow]":
    async with open_existing(config) as database:
        if status not in {"running", "interrupted"}:
            return await database.runs.latest(limit, status=status, text=text)  # type: ignore[arg-type]
        rows = await database.runs.latest(_MANY, status="running", text=text)
        return [row for row in rows if row.interrupted == (status == "interrupted")][:limit]


async def _row(config: "FlowConfig", run: str) -> "RunRow":
    async with open_existing(config) as database:
        return await find_run(database, run)


async def _stored(config: "FlowConfig", run: str) -> "tuple[RunRow, Trajectory]":
    from graph.stored_run import trajectory_of

    async with open_existing(config) as database:
        row = await find_run(database, run)
        return row, await trajectory_of(database, row)


async def _delete(config: "FlowConfig", run: str) -> None:
    async with open_existing(config) as database:
        await database.delete(run)
