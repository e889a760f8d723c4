"""`agentflow traces export`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentflow.console.damage import DamageReport
from agentflow.console.terminal import complain
from agentflow.options import ConfigFile, Overrides, settings
from agentflow.traces.options import Chosen, trajectories, with_filters

if TYPE_CHECKING:
    from graph.trace import Trajectory
    from graph.traces.redaction import Redactor
    from graph.traces.writing import Write


@with_filters
def export(
    context: typer.Context,
    chosen: Chosen,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="A file ending in .jsonl, a folder for Parquet, or - for standard output.",
            show_default=False,
        ),
    ],
    as_format: Annotated[
        Literal["jsonl", "parquet"] | None, typer.Option("--format", help="Whatever the name says.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to a file of JSON lines what it lacks.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="Replace mail addresses, telephone numbers and the like; keys always are.")
    ] = False,
    redact_pattern: Annotated[
        list[str] | None, typer.Option(metavar="NAME=REGEX", help="Replace what matches this, too.")
    ] = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Write trajectories to a file, oldest first; runs that have not ended are left out."""
    from graph.traces.redaction import Redactor
    from graph.traces.writing import STANDARD_OUTPUT, check_place, format_of, open_writer

    config = settings(context, config_file, overrides).config
    kind = as_format or format_of(out)
    check_place(out, kind, append=append, overwrite=overwrite)
    redactor = Redactor.of(config, personal=redact, own=_patterns(redact_pattern or []))
    with DamageReport() as report:
        found = trajectories(config, chosen, report)
        writer = open_writer(out, kind, append=append, overwrite=overwrite)
        written, redacted = asyncio.run(_export(found, redactor, writer))
    if not written:
        complain("There is nothing new to add." if append else "There are no such trajectories; nothing was written.")
        return
    where = "standard output" if out == STANDARD_OUTPUT else str(out)
    many = "trajectory" if written == 1 else "trajectories"
    complain(f"Wrote {written:,} {many} to {where}" + (f"; {redacted:,} redacted." if redacted else "."))


async def _export(
    found: "AsyncIterator[Trajectory]", redactor: "Redactor", writer: "AbstractContextManager[Write]"
) -> tuple[int, int]:
    """Return how many were written, and how many of these redacted. Without any, the writer is not opened."""
    written = redacted = 0
    with ExitStack() as stack:
        write: Callable[[Trajectory], bool] | None = None
        async for trajectory in found:
            write = write or stack.enter_context(writer)
            shown = redactor.redact(trajectory)
            if write(shown):
                written += 1
                redacted += shown is not trajectory
    return written, redacted


def _patterns(given: list[str]) -> dict[str, str]:
    from graph.errors import ConfigError

    patterns = {}
    for pattern in given:
        name, equals, regex = pattern.partition("=")
        if not (name and equals and regex):
            raise ConfigError(f"--redact-pattern {pattern!r} must look like ORDER=ORD-[0-9]+.")
        patterns[name] = regex
    return patterns
