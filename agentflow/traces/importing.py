"""`agentflow traces import`."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentflow.console.damage import DamageReport
from agentflow.console.terminal import complain
from agentflow.console.text import clean
from agentflow.options import AsJson, ConfigFile, Overrides, settings

if TYPE_CHECKING:
    from graph.config import FlowConfig
    from graph.trace import Trajectory
    from graph.traces.foreign.record import LeftOut

_BATCH = 50
"""Trajectories in one transaction: what is imported when the command is killed stays."""
_STANDARD_INPUT = Path("/dev/stdin")


def import_traces(
    context: typer.Context,
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files, folders of them, or - for standard input.", show_default=False),
    ],
    as_format: Annotated[
        Literal["auto", "agentflow", "original", "chat"],
        typer.Option("--format", help="Skip records of other formats; they are told by their fields."),
    ] = "auto",
    tag: Annotated[list[str] | None, typer.Option(help="Give them this tag.")] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="The dataset that their questions are from.")
    ] = None,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Add traces from files: exports, files of the original AgentFlow, and chat logs; those already there stay."""
    from graph.errors import ConfigError
    from graph.traces.foreign.reader import read_any
    from graph.traces.foreign.record import LeftOut
    from graph.traces.redaction import Redactor

    config = settings(context, config_file, overrides).config
    paths = [_STANDARD_INPUT if str(path) == "-" else path for path in paths]
    for path in paths:
        if not path.exists():
            raise ConfigError(f"There is no {path}: give a file or folder of traces.")
    left_out = LeftOut()
    wanted = None if as_format == "auto" else as_format
    with DamageReport() as report:
        found = (trajectory for path in paths for trajectory in read_any(path, wanted, report, left_out))
        labelled = (_labelled(trajectory, tag or (), dataset) for trajectory in found)
        imported, there = asyncio.run(_add(config, map(Redactor.of_secrets(config).redact, labelled)))
    if as_json:
        counts = {"imported": imported, "already_there": there, "skipped": report.count}
        print(json.dumps({**counts, "left_out": dict(left_out)}))
    elif imported or there:
        _tell(left_out)
        print(f"imported {imported:,}, already there {there:,}, skipped {report.count:,}")
    if not imported and not there:
        what = "every record was skipped" if report.count else "there are no traces in it"
        raise ConfigError(f"Nothing was imported, as {what}: docs/traces.md says which files can be.")


async def _add(config: "FlowConfig", found: "Iterator[Trajectory]") -> tuple[int, int]:
    """Return how many were added, and how many were there. Without any, no database is made."""
    from graph.storage.database import open_database  # slow to load: `--help` needs none of it

    batch = list(islice(found, _BATCH))
    if not batch:
        return 0, 0
    added = there = 0
    async with open_database(config.storage.url) as database:
        while batch:
            new = await database.traces.add_many(batch)
            added, there = added + new, there + len(batch) - new
            batch = list(islice(found, _BATCH))
    return added, there


def _labelled(trajectory: "Trajectory", tags: Sequence[str], dataset: str | None) -> "Trajectory":
    new = [tag for tag in dict.fromkeys(tags) if tag not in trajectory.tags]
    update: dict[str, object] = {"tags": (*trajectory.tags, *new)}
    if dataset is not None:
        update["dataset"] = dataset
    return trajectory.model_copy(update=update)


def _tell(left_out: "LeftOut") -> None:
    """Say what of the imported records was left out."""
    if left_out:
        said = ", ".join(clean(f"{what} ({count:,})") for what, count in left_out.most_common())
        complain(f"Left out: {said}.")
