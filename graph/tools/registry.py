"""The tools that a run is offered: built-ins, the user's own, and those of MCP servers."""

import asyncio
import hashlib
import importlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema
from pydantic import BaseModel

from graph.errors import ConfigError, ToolError
from graph.models.client import RoleModel
from graph.plain import plain_error
from graph.state import ToolDescription
from graph.tools.card import AgentTool, ToolCard
from graph.tools.containment import contain
from graph.tools.settings import ToolsSettings

if TYPE_CHECKING:
    from langchain_mcp_adapters.interceptors import MCPToolCallRequest, MCPToolCallResult

_BUILT_IN = {
    "python": "graph.tools.python",
    "search_corpus": "graph.tools.search_corpus",
    "wikipedia": "graph.tools.wikipedia",
    "web_search": "graph.tools.web_search",
    "read_page": "graph.tools.read_page",
}
_PLAIN_CARD = ToolCard(limits="", best_practice="", cacheable=False)
"""For a user's or an MCP server's tool without a card: its calls may have effects."""
_MCP_START_SECONDS = 30.0
_SCHEMA_KEYS = frozenset({"type", "properties", "required", "$defs", "definitions", "anyOf"})


@dataclass(frozen=True)
class Toolbox:
    """The tools on offer, and why others are not."""

    tools: Mapping[str, BaseTool]
    """By name, in the order of the prompts."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Enabled tools that cannot be offered now, with the reason."""

    def __post_init__(self) -> None:
        for tool in self.tools.values():
            contain(tool)

    def card(self, name: str) -> ToolCard:
        """Return a tool's card."""
        tool = self.tools[name]
        card = tool.card if isinstance(tool, AgentTool) else (tool.metadata or {}).get("card")
        return card if isinstance(card, ToolCard) else _PLAIN_CARD

    def describe(self) -> tuple[ToolDescription, ...]:
        """Return what prompts say about the tools."""
        return tuple(self._describe(name, tool) for name, tool in self.tools.items())

    def _describe(self, name: str, tool: BaseTool) -> ToolDescription:
        card = self.card(name)
        return ToolDescription(
            name=name,
            description=" ".join(tool.description.split())[:400],
            limits=card.limits,
            best_practice=card.best_practice,
            arguments=argument_schema(tool),
            examples=tuple((example.sub_goal, example.arguments) for example in card.examples),
            code_argument=card.code_argument,
            version=card.version,
        )

    def only(self, names: Sequence[str]) -> "Toolbox":
        """Return a toolbox with just these tools, in this order.

        Raises:
            ConfigError: one of them is not there.
        """
        for name in names:
            if name not in self.tools:
                why = self.unavailable.get(name) or f"known here are {', '.join(self.tools)}"
                raise ConfigError(f"The tool {name!r} cannot be used: {why}.")
        return Toolbox({name: self.tools[name] for name in names})


def argument_schema(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, without titles."""
    schema = tool.args_schema if isinstance(tool.args_schema, dict) else convert_to_json_schema(tool)
    return {key: _without_titles(value) for key, value in schema.items() if key in _SCHEMA_KEYS}


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # An argument may be called "title": its value is a schema, a title is text.
    return {
        key: _without_titles(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))
    }


@asynccontextmanager
async def open_toolbox(settings: ToolsSettings, generate: RoleModel | None) -> AsyncIterator[Toolbox]:
    """Build the enabled tools, and keep the sessions of MCP servers open while the block runs.

    Raises:
        ConfigError: an unknown name in `enabled`, a custom tool that cannot be loaded, or an MCP server that does not
            start.
    """
    found: dict[str, BaseTool] = {}
    async with AsyncExitStack() as stack:
        for address in settings.custom:
            _add(found, _load_custom(address), address)
        for server, connection in settings.mcp.items():
            for tool in await _open_mcp(stack, server, connection):
                _add(found, tool, f"MCP server {server}")
        offered, missing = _built_in(settings, generate)
        found = {**offered, **found}
        names = [*settings.enabled, *(name for name in found if name not in settings.enabled and name not in offered)]
        for name in names:
            if name not in found and name not in missing:
                raise ConfigError(
                    f"There is no tool {name!r}; known are {', '.join([*_BUILT_IN, 'generate', *found])}."
                )
        reasons = await asyncio.gather(*(_reason(found[name]) for name in names if name in found))
        missing |= {name: why for name, why in zip((n for n in names if n in found), reasons, strict=True) if why}
        yield Toolbox({name: found[name] for name in names if name not in missing}, missing)


def _built_in(settings: ToolsSettings, generate: RoleModel | None) -> tuple[dict[str, BaseTool], dict[str, str]]:
    found: dict[str, BaseTool] = {}
    missing: dict[str, str] = {}
    for name in settings.enabled:
        if name == "generate":
            from graph.tools.generate import GenerateTool  # here, as only runs with a model need it

            if generate is None:
                missing[name] = "it needs a model"
            else:
                found[name] = GenerateTool(model=generate)
        elif name in _BUILT_IN:
            module = importlib.import_module(_BUILT_IN[name])  # only enabled tools pay for their imports
            own: BaseModel = getattr(settings, name)
            found[name] = _stamp(module.build(own), own)
    return found, missing


def _stamp(tool: AgentTool, settings: BaseModel) -> AgentTool:
    """Make the tool's settings, and the state of the file that it reads, part of the result cache's key."""
    told = settings.model_dump_json()
    path = getattr(tool, "path", None)
    if isinstance(path, Path) and path.exists():
        about = path.stat()
        told += f" {path} {about.st_size} {about.st_mtime_ns}"
    digest = hashlib.sha256(told.encode()).hexdigest()[:8]
    tool.card = tool.card.model_copy(update={"version": f"{tool.card.version}-{digest}"})
    return tool


def _add(found: dict[str, BaseTool], tool: BaseTool, source: str) -> None:
    if tool.name in found:
        raise ConfigError(f"Two of your own tools are called {tool.name!r}, the second from {source}: rename one.")
    found[tool.name] = tool


async def _reason(tool: BaseTool) -> str | None:
    try:
        return await tool.unavailable() if isinstance(tool, AgentTool) else None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's tool may raise anything
        return f"its check failed with {type(error).__name__}: {plain_error(error)}"


def _load_custom(address: str) -> BaseTool:
    module_name, colon, attribute = address.partition(":")
    if not colon:
        raise ConfigError(f"The custom tool {address!r} must be written as module:object.")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where a user's module is; an installed command does not look there
    try:
        loaded: Any = getattr(importlib.import_module(module_name), attribute)
        if callable(loaded) and not isinstance(loaded, BaseTool):
            loaded = loaded()
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        why = f"{type(error).__name__}: {plain_error(error)}".removesuffix(": ")
        raise ConfigError(f"The custom tool {address!r} cannot be loaded: {why}.") from error
    if not isinstance(loaded, BaseTool):
        raise ConfigError(
            f"{address!r} is {type(loaded).__name__}, not a LangChain tool or a callable that returns one."
        )
    return loaded


async def _open_mcp(stack: AsyncExitStack, name: str, connection: Mapping[str, object]) -> list[BaseTool]:
    from langchain_mcp_adapters.client import MultiServerMCPClient  # slow to import, and few use it
    from langchain_mcp_adapters.tools import load_mcp_tools
    from mcp.shared.exceptions import McpError

    try:
        client = MultiServerMCPClient({name: dict(connection)})  # type: ignore[dict-item]
        async with asyncio.timeout(_MCP_START_SECONDS):
            session = await stack.enter_async_context(client.session(name))
            return await load_mcp_tools(session, tool_interceptors=[_tell_end], server_name=name)
    except (OSError, ValueError, TypeError, McpError, httpx.HTTPError, ExceptionGroup) as error:
        reason = _first_reason(error)
        raise ConfigError(f"The MCP server {name!r} does not start: {reason}.") from error


async def _tell_end(
    request: "MCPToolCallRequest", handler: "Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]]"
) -> "MCPToolCallResult":
    """Say in a sentence that a server has ended, during this call or before it."""
    from mcp.shared.exceptions import McpError  # loaded by now: there is a server
    from mcp.types import CONNECTION_CLOSED

    try:
        return await handler(request)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, McpError) as error:
        if isinstance(error, McpError) and error.error.code != CONNECTION_CLOSED:
            raise
        raise ToolError(f"The MCP server {request.server_name} has ended: use another tool.") from error


def _first_reason(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
