"""`agentflow traces show`."""

import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.console.damage import DamageReport
from agentflow.console.terminal import PlainConsole
from agentflow.options import AsJson, ConfigFile, Overrides, Verbose, settings
from agentflow.traces.finding import find
from agentflow.traces.options import Files

if TYPE_CHECKING:
    from agentflow.console.calls_table import Group
    from agentflow.traces.finding import Found
    from graph.events import Event
    from graph.trace import Trajectory
    from graph.traces.place import Place
    from graph.traces.prices import Prices


def show(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="ID", help="A trajectory's id, or the beginning of it.", show_default=False)
    ],
    file: Files = None,
    turn: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Only this turn; 0 for what comes before the first, answer for what comes after."
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The model calls as they were made: messages, text, ids, log-probabilities.")
    ] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Show a trajectory, also of a run that has not ended; --raw shows exactly what models were sent and said."""
    from graph.traces.place import Place, raw_calls
    from graph.traces.prices import Prices

    config = settings(context, config_file, overrides).config
    with DamageReport() as report:
        found = asyncio.run(find(config, name, file or [], report))
    trajectory = found.trajectory
    place = None if turn is None else Place.of(turn, trajectory)
    calls = [call for call in trajectory.calls if place is None or place.holds(call)]
    if as_json and raw:
        for call in raw_calls(calls):
            print(json.dumps(call))
    elif as_json:
        print(json.dumps(place.as_json(trajectory) if place else trajectory.model_dump(mode="json")))
    elif raw:
        from agentflow.console.trace_turn import print_raw

        print_raw(PlainConsole(), calls)
    else:
        _tell(found, place, Prices(config.prices), verbose=verbose)


def _tell(found: "Found", place: "Place | None", prices: "Prices", *, verbose: bool) -> None:
    """Print what happened, as people read it."""
    from agentflow.console.calls_table import print_calls
    from agentflow.console.run_state import print_state
    from agentflow.console.story import Story
    from agentflow.console.trace_header import print_header

    console, trajectory = PlainConsole(), found.trajectory
    going_on = found.row is not None and found.row.status == "running"
    if place is None:
        print_header(console, trajectory, verbose=verbose)
        console.print()
    with Story(console, stream=False, verbose=verbose) as story:
        for event in _events(trajectory, place, going_on=going_on):
            story(event)
    if place is None:
        console.print()
        print_calls(console, [_calls_of(trajectory, prices)])
        if found.row is not None:
            print_state(console, found.row, trajectory.error)
        elif trajectory.error:
            from agentflow.console.text import clean

            console.print(clean(trajectory.error), soft_wrap=True)


def _events(trajectory: "Trajectory", place: "Place | None", *, going_on: bool) -> "Iterator[Event]":
    """Yield what happened at a place, or everywhere; how it ended only of a run that has."""
    from agentflow.console.replay import replay
    from graph.events import EventKind

    for event in replay(trajectory):
        if event.kind is EventKind.DONE and (going_on or place):
            continue
        if place is None or _is_at(event, place):
            yield event


def _is_at(event: "Event", place: "Place") -> bool:
    from graph.events import EventKind

    if isinstance(place.turn, int) and place.turn > 0:
        return event.turn == place.turn - 1
    after = event.kind is EventKind.ANSWER or event.data.get("role") == "generator"
    return event.turn < 0 and after == (place.turn == "answer")


def _calls_of(trajectory: "Trajectory", prices: "Prices") -> "Group":
    """Add up all calls that a trajectory holds, also those that a fork took over from its parent."""
    from agentflow.console.calls_table import Group
    from graph.traces.call_totals import CallTotals

    roles: dict[str, CallTotals] = {}
    whole = CallTotals()
    for call in trajectory.calls:
        cost = prices.cost(call)
        whole.add(call, cost)
        roles.setdefault(call.role, CallTotals()).add(call, cost)
    return Group("", roles, whole)
