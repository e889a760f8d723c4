"""Runs of the real flow against a scripted server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from graph.config import FlowConfig
from graph.events import Event
from graph.runner import Runner, open_runner
from graph.storage.database import open_database
from tests.fakes import ANALYSIS, STOP, ScriptedServer, answer, command, plan

COUNTING = "tests.counting_tool:count_calls"


def scripts(**changes: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """A run of one turn that notes "a" and answers "42"; `changes` replace a role's replies."""
    return {
        "analyzer": [ANALYSIS],
        "planner": [plan()],
        "executor": [command({"text": "a"})],
        "verifier": [STOP],
        "generator": [answer("42")],
    } | changes


def config_for(server: ScriptedServer, **settings: Any) -> FlowConfig:
    """Every role at the server, the counting tool as the only one; `settings` are merged over this, table by table."""
    tables: dict[str, dict[str, Any]] = {
        "models": {"default": {"model": server.models[0], "base_url": server.url, "max_retries": 0, "timeout": 20}},
        "tools": {"enabled": [], "custom": [COUNTING]},
    }
    for name, table in settings.items():
        tables[name] = tables.get(name, {}) | table
    return FlowConfig.model_validate(tables)


@asynccontextmanager
async def open_flow(server: ScriptedServer, database: str | None = None, **settings: Any) -> AsyncIterator[Runner]:
    """A runner at the server, with the database at this address if there is one."""
    config = config_for(server, **settings)
    if database is None:
        async with open_runner(config) as runner:
            yield runner
    else:
        async with open_database(database) as opened, open_runner(config, database=opened) as runner:
            yield runner


class Events(list[Event]):
    """Collects what a run tells."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: str) -> list[Event]:
        return [event for event in self if event.kind == kind]
