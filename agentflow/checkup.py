"""The single checks of `agentflow doctor`."""

import asyncio
import os
import platform
import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Literal

from agentflow.finding import Finding
from agentflow.model_checkup import examine_models

if TYPE_CHECKING:
    from graph.config import FlowConfig

_OLDEST_PYTHON = (3, 11)
_ARCHITECTURES = {"x86_64", "amd64", "aarch64", "arm64"}


async def examine(config: "FlowConfig") -> AsyncIterator[Finding]:
    """Check everything that `config` uses, one finding after another."""
    yield _python()
    yield _platform()
    async for finding in examine_models(config):
        yield finding
    async for finding in _tools(config):
        yield finding
    yield await asyncio.to_thread(_sandbox, config)
    yield await _storage(config)
    for finding in _keys(config):
        yield finding


def _python() -> Finding:
    found = platform.python_version()
    if sys.version_info < _OLDEST_PYTHON:
        return Finding("python", "broken", f"{found} is too old: use 3.11 or later.")
    return Finding("python", "ok", f"{found} at {sys.executable}")


def _platform() -> Finding:
    system, machine = platform.system(), platform.machine()
    if system == "Linux" and machine.lower() in _ARCHITECTURES:
        return Finding("platform", "ok", f"{system} on {machine}")
    missing = "the embedded model may not install" if system == "Linux" else "the python tool has no sandbox"
    return Finding(
        "platform", "note", f"{system} on {machine} is not tested: {missing}; use model servers by base_url."
    )


async def _tools(config: "FlowConfig") -> AsyncIterator[Finding]:
    from graph.errors import ConfigError
    from graph.tools.registry import open_toolbox

    try:
        async with open_toolbox(config.tools, None) as toolbox:
            for name in toolbox.tools:
                yield Finding(f"tool {name}", "ok", "offered")
            for name, reason in toolbox.unavailable.items():
                if name == "generate":
                    yield Finding("tool generate", "ok", "offered; asks the model of models.generate")
                else:
                    yield Finding(f"tool {name}", "note", f"not offered: {reason}")
    except ConfigError as error:
        yield Finding("tools", "broken", str(error))


def _sandbox(config: "FlowConfig") -> Finding:
    from graph.errors import SandboxError
    from graph.sandbox import Level, detect_level

    try:
        level = detect_level(config.tools.python)
    except SandboxError as error:
        return Finding("sandbox", "note", str(error))
    if level is Level.RLIMITS_ONLY:
        return Finding("sandbox", "note", "rlimits-only: code can read files and use the network, as you allowed.")
    return Finding("sandbox", "ok", level.value)


async def _storage(config: "FlowConfig") -> Finding:
    from graph.errors import AgentFlowError
    from graph.storage.database import open_database

    shown = config.storage.url if "://" not in config.storage.url else "PostgreSQL"
    try:
        async with open_database(config.storage.url) as database:
            await database.runs.delete("")  # no run: nothing is written, but it takes the right to write
    except AgentFlowError as error:
        return Finding("storage", "broken", str(error))
    return Finding("storage", "ok", f"{shown} can be written")


def _keys(config: "FlowConfig") -> Iterator[Finding]:
    from graph.config import ROLES

    wanted = {config.models.of(role).api_key_env: role for role in ROLES}
    for name, role in wanted.items():
        if name is not None:
            yield _key(name, f"models.{role}", "broken")
    if "web_search" in config.tools.enabled:
        yield _key("TAVILY_API_KEY", "web_search", "note")


def _key(name: str, use: str, unless_set: Literal["note", "broken"]) -> Finding:
    if os.environ.get(name):
        return Finding(f"key {name}", "ok", "set")
    return Finding(f"key {name}", unless_set, f"not set; {use} needs it in the environment or in .env.")
