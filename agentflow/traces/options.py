"""The filters that commands on traces share, and the trajectories that they choose."""

import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentflow.storage import open_existing

if TYPE_CHECKING:
    from graph.config import FlowConfig
    from graph.storage.database import Database
    from graph.trace import Trajectory
    from graph.traces.reading import OnDamage
    from graph.traces.selection import Selection

Stop = Literal["VERIFIED", "MAX_TURNS", "MAX_SECONDS", "MAX_TOKENS", "CANCELLED", "FAILED"]
Source = Literal["ask", "chat", "evaluation", "rollout", "import"]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Read these instead of the database: JSON lines, Parquet, or - for standard input.",
    ),
]
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class Chosen:
    """What a command works on."""

    selection: "Selection"
    files: tuple[Path, ...]
    """Empty: the database."""


def _choice(
    file: Files = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not older than: 2026-11-30, 2026-11-30T14:00, or 7d, 12h, 30m.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Older than that.")] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="Of a conversation, or of the one that a run belongs to.")
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="ID", help="Of one group of rollouts.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="With this tag; several must all be there.")] = None,
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="With a question of this dataset.")] = None,
    source: Annotated[Source | None, typer.Option(help="Asked by this.")] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="Planned by this version, such as planner@v3.")
    ] = None,
    stop: Annotated[Stop | None, typer.Option(help="That ended so.")] = None,
    scored: Annotated[bool | None, typer.Option("--scored/--unscored", help="With a reward, or without.")] = None,
    min_reward: Annotated[float | None, typer.Option(metavar="R", help="With at least this reward.")] = None,
    max_reward: Annotated[float | None, typer.Option(metavar="R", help="With at most this reward.")] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="That called this tool.")] = None,
    text: Annotated[str | None, typer.Option(help="Whose question holds this text.")] = None,
) -> Chosen:
    from graph.records import StopReason
    from graph.traces.selection import Selection

    selection = Selection(
        since=_time(since, "--since"),
        until=_time(until, "--until"),
        conversation=conversation,
        group=group,
        tags=tuple(tag or ()),
        dataset=dataset,
        source=source,
        policy=policy,
        stop=StopReason(stop) if stop else None,
        scored=scored,
        min_reward=min_reward,
        max_reward=max_reward,
        tool=tool,
        text=text,
    )
    return Chosen(selection, tuple(file or ()))


def with_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the filters as options; it gets what they choose as `chosen`."""
    filters = inspect.signature(_choice).parameters
    own = [parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != "chosen"]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        chosen = _choice(**{name: given.pop(name) for name in filters})
        command(**given, chosen=chosen)

    options = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *filters.values())]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def _time(given: str | None, option: str) -> float | None:
    """Return a point in time that is written as a date, or as how long ago it was.

    Raises:
        ConfigError: it is neither.
    """
    from graph.errors import ConfigError

    if given is None:
        return None
    if ago := re.fullmatch(r"(\d{1,6})([mhdw])", given.strip()):
        return (datetime.now().astimezone() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).timestamp()
    try:
        return datetime.fromisoformat(given.strip()).astimezone().timestamp()
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{option} {given!r} is no time: write 2026-11-30, 2026-11-30T14:00, or 7d.") from error


async def trajectories(config: "FlowConfig", chosen: Chosen, on_damage: "OnDamage") -> "AsyncIterator[Trajectory]":
    """Yield the chosen trajectories, of the files or else of the database, one after the other.

    Args:
        config: names the database.
        chosen: by the options.
        on_damage: told of each record in a file that is skipped.

    Raises:
        ConfigError: a file cannot be read, or there is no database.
        StorageError: the database is damaged.
    """
    if chosen.files:
        from graph.traces.files import read_traces

        for file in chosen.files:
            for found in read_traces(file, on_damage):
                if chosen.selection.matches(found):
                    yield found
        return
    async with open_existing(config) as database:
        async for found in database.traces.stream(await resolved(database, chosen.selection)):
            yield found


async def resolved(database: "Database", selection: "Selection") -> "Selection":
    """Return the selection with the conversation of a run in place of the run's id."""
    from dataclasses import replace

    if selection.conversation is None:
        return selection
    row = await database.runs.get(selection.conversation)
    return replace(selection, conversation=row.conversation) if row and row.conversation else selection
