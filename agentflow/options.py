"""Options that many commands share, and the configuration that they add up to."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from graph.config import LoadedConfig

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration file.", show_default="agentflow.toml, if there is one")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as models.planner.temperature=0.5."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Whole results, and tokens of every model call.")]
NoStream = Annotated[bool, typer.Option("--no-stream", help="Do not show tokens as they come.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
RunId = Annotated[
    str,
    typer.Argument(metavar="ID", help="A run's id, or the beginning of it; last for the latest.", show_default=False),
]


def settings(
    context: typer.Context, file: Path | None, overrides: list[str] | None, *, extra: tuple[str, ...] = ()
) -> "LoadedConfig":
    """Load the configuration; options of the command come after those of `agentflow` itself, `extra` last.

    Raises:
        ConfigError: it cannot be read, or a setting is wrong.
    """
    from agentflow.console.hiding import hide_in_errors
    from graph.config import load_config  # here, as `--help` needs no pydantic
    from graph.known_secrets import KnownSecrets

    given = context.find_root().params
    everything = [*(given.get("overrides") or ()), *(overrides or ()), *extra]
    loaded = load_config(file or given.get("config_file"), everything)
    hide_in_errors(KnownSecrets.of(loaded.config))
    return loaded
