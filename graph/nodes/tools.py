"""The tools node: one call of a tool, each a task of its own, so that a crash repeats only what was not committed."""

import asyncio
import json
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, TypedDict

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langgraph.runtime import Runtime
from pydantic import BaseModel, ValidationError

from graph.context import Context
from graph.deadline import OutOfTimeError
from graph.errors import ToolError
from graph.events import EventKind
from graph.known_secrets import KnownSecrets
from graph.memory import cut
from graph.plain import plain_error, plain_json, plain_text
from graph.records import Observation
from graph.state import FlowUpdate
from graph.tools.card import ToolCard
from graph.tools.containment import EscapedError, invoke, is_the_users
from graph.tools.scope import ToolScope, current_scope

_CACHE_NAMESPACE = ("agentflow", "tools")
_CONTAINER_PROBLEMS = frozenset(
    {"list_type", "tuple_type", "set_type", "dict_type", "model_type", "model_attributes_type"}
)


class ToolTask(TypedDict):
    """One call of the current command."""

    tool: str
    arguments: dict[str, Any]
    turn: int
    index: int


async def tools(state: ToolTask, runtime: Runtime[Context]) -> FlowUpdate:
    """Run one call; everything that goes wrong in it is an observation."""
    context = runtime.context
    name, turn, index = state["tool"], state["turn"], state["index"]
    started = {"index": index, "tool": name, "arguments": state["arguments"]}
    context.tell(EventKind.TOOL, started, turn=turn)
    scope = ToolScope(
        context.deadline,
        turn,
        on_token=lambda text: context.tell(EventKind.TOKEN, {"module": name, "text": text}, turn=turn),
    )
    if context.settle is not None:
        # A tool may have effects: whatever happens from here on, a resumed run knows that it may have been started.
        await context.settle()
    token = current_scope.set(scope)
    try:
        observation = await _observe(state, context)
    finally:
        current_scope.reset(token)
    context.tell(EventKind.OBSERVATION, {"index": index, **observation.model_dump(mode="json")}, turn=turn)
    update: FlowUpdate = {"turns": [observation]}
    return {**update, "calls": scope.calls} if scope.calls else update


async def _observe(task: ToolTask, context: Context) -> Observation:
    tool, card = context.toolbox.tools[task["tool"]], context.toolbox.card(task["tool"])
    start = time.monotonic()
    try:
        arguments, note = fit_arguments(tool, task["arguments"])
    except ToolError as error:
        content = context.secrets.hide(plain_text(str(error)))
        return Observation(tool=tool.name, arguments=task["arguments"], status="error", content=content)
    except BaseException as error:  # noqa: BLE001 - a user's schema may hold validators that raise anything
        outcome = _failure(tool, card, error, context.secrets)
        return Observation(tool=tool.name, arguments=task["arguments"], **outcome)
    key = _cache_key(tool.name, card, arguments)
    if context.cache and card.cacheable and (hit := (await context.cache.aget([key])).get(key)):
        try:
            seconds = round(time.monotonic() - start, 4)
            return Observation.model_validate(context.secrets.hide_all(hit) | {"cached": True, "seconds": seconds})
        except (ValidationError, TypeError):
            pass  # written by another release: the call is made, and its result takes the place
    outcome = await _run(tool, card, arguments, context)
    if note and outcome["status"] == "ok":
        outcome["content"] = f"{outcome['content']}\n({note})"
    observation = Observation(
        tool=tool.name,
        arguments=arguments,
        seconds=round(time.monotonic() - start, 4),
        repeated=task["turn"] == context.repeating,
        **outcome,
    )
    if context.cache and card.cacheable and observation.status == "ok":
        kept = observation.model_dump(mode="json", exclude={"repeated"})
        await context.cache.aset({key: (kept, card.cache_seconds)})
    return observation


async def _run(tool: BaseTool, card: ToolCard, arguments: dict[str, Any], context: Context) -> dict[str, Any]:
    """Return status, content and artifact of one call within its time."""
    limit = min(card.timeout, context.deadline.left())
    task = asyncio.current_task()
    assert task is not None
    cancellations = task.cancelling()
    try:
        async with asyncio.timeout(limit) as scope:
            message = await invoke(tool, {"type": "tool_call", "name": tool.name, "args": arguments, "id": "call"})
        return _result(tool, card, message, context.secrets)
    except BaseException as error:  # a user's tool may raise anything; the planner sees it and goes on
        if task.cancelling() > cancellations:
            raise asyncio.CancelledError from error  # the run is stopped, whatever the tool made of that
        if isinstance(error, OutOfTimeError) or scope.expired():
            whose = "the tool's limit" if limit == card.timeout else "all that was left to the run"
            return {"status": "timeout", "content": f"{tool.name} was stopped after {limit:.3g} s, {whose}."}
        return _failure(tool, card, error, context.secrets)


def _result(tool: BaseTool, card: ToolCard, message: Any, secrets: KnownSecrets) -> dict[str, Any]:
    if not isinstance(message, ToolMessage):
        kind = type(message).__name__
        raise ToolError(f"{tool.name} returned a {kind}, which cannot be used here: a tool returns text or JSON.")
    content = cut(secrets.hide(plain_text(message.text)), card.max_output)  # a secret that is cut is not recognised
    artifact = secrets.hide_all(plain_json(message.artifact)) if isinstance(message.artifact, dict) else {}
    status = "error" if message.status == "error" or artifact.get("failed") else "ok"
    status = "timeout" if artifact.get("timed_out") else status
    return {"status": status, "content": content or "(no output)", "artifact": artifact or None}


def _failure(tool: BaseTool, card: ToolCard, error: BaseException, secrets: KnownSecrets) -> dict[str, Any]:
    """Return what the planner is told of an exception, unless that is the user's Ctrl-C."""
    if is_the_users(error):
        raise error
    if isinstance(error, EscapedError):
        error = error.error
    problem = plain_error(error)
    if not isinstance(error, ToolError | ToolException):
        problem = f"{tool.name} failed: {type(error).__name__}: {problem}".removesuffix(": ")
    return {"status": "error", "content": cut(secrets.hide(problem), card.max_output)}


def fit_arguments(tool: BaseTool, given: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the arguments as the tool's schema takes them, and a note on what was ignored.

    Numbers written as strings, text written as a number, and lists and objects written as JSON strings are converted;
    unknown arguments are dropped.

    Raises:
        ToolError: an argument is missing or does not fit; the message says which, and what the tool takes.
    """
    schema = tool.args_schema
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return dict(given), None  # an MCP server checks its arguments itself
    names = {name for name, field in schema.model_fields.items()}
    names |= {field.alias for field in schema.model_fields.values() if field.alias}
    unknown = [] if schema.model_config.get("extra") == "allow" else [name for name in given if name not in names]
    known = {name: value for name, value in given.items() if name not in unknown}
    try:
        fitted = _validate(schema, known)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg'].lower()}" for e in error.errors()[:3]
        )
        takes = ", ".join(
            f"{name}" if f.is_required() else f"{name} (optional)" for name, f in schema.model_fields.items()
        )
        raise ToolError(f"{tool.name} was not run: {problems}. It takes: {takes or 'no arguments'}.") from error
    note = f"ignored unknown arguments: {', '.join(unknown)}" if unknown else None
    return fitted.model_dump(mode="json", exclude_unset=True, by_alias=True), note


def _validate(schema: type[BaseModel], given: Mapping[str, Any]) -> BaseModel:
    """Validate, and where a value has the wrong type once more with what it safely converts to."""
    try:
        return schema.model_validate(given)
    except ValidationError as error:
        wrong = {e["loc"][0]: e["type"] for e in error.errors() if len(e["loc"]) == 1}
        converted = {name: _convert(value, wrong.get(name, "")) for name, value in given.items()}
        return schema.model_validate(converted)


def _convert(value: Any, problem: str) -> Any:
    if problem == "string_type" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if problem in _CONTAINER_PROBLEMS and isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _cache_key(name: str, card: ToolCard, arguments: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    canonical = json.dumps([name, card.version, arguments], sort_keys=True, ensure_ascii=False)
    return (_CACHE_NAMESPACE, sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest())
