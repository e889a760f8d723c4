"""`agentflow doctor`: what works here, what does not, and what to do about it."""

import asyncio
from dataclasses import replace

import typer

from agentflow.checkup import examine
from agentflow.console.row import Row
from agentflow.console.terminal import PlainConsole
from agentflow.finding import Finding
from agentflow.options import ConfigFile, Overrides, settings

_STYLES = {"ok": "green", "note": "yellow", "broken": "bold red"}


def doctor(context: typer.Context, config_file: ConfigFile = None, overrides: Overrides = None) -> None:
    """Check python, models, tools, sandbox and storage; exit status 1 when something that every run needs is broken."""
    from graph.errors import ConfigError
    from graph.known_secrets import KnownSecrets

    console = PlainConsole()
    broken = False
    try:
        config = settings(context, config_file, overrides).config
    except ConfigError as error:
        _print(console, Finding("settings", "broken", str(error)))
        raise typer.Exit(1) from error

    secrets = KnownSecrets.of(config)

    async def report() -> None:
        nonlocal broken
        async for finding in examine(config):
            _print(console, replace(finding, text=secrets.hide(finding.text)))
            broken = broken or finding.state == "broken"

    asyncio.run(report())
    if broken:
        raise typer.Exit(1)


def _print(console: PlainConsole, finding: Finding) -> None:
    Row(finding.state, f"{finding.subject}: {finding.text}", label_style=_STYLES[finding.state]).print(console)
