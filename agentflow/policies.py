"""`agentflow policies`: the versions of the planner, and which of them answers."""

import asyncio
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.console.terminal import PlainConsole
from agentflow.options import AsJson, ConfigFile, Overrides, settings
from agentflow.planner_server import held_policies, planner_server, why_none

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graph.config import FlowConfig
    from graph.policies.promotion import Promoted
    from graph.policies.registry import PolicyRegistry
    from graph.policies.vllm_control import VLLMControl

app = typer.Typer(no_args_is_help=True, help="List, add, load, promote and roll back versions of the planner.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A version, such as planner@v3.", show_default=False)]
NameOrBase = Annotated[
    str, typer.Argument(metavar="NAME", help="A version, or base for the model as it is.", show_default=False)
]
Server = Annotated[str | None, typer.Option(metavar="URL", help="The server.", show_default="the planner's")]
KeepOld = Annotated[bool, typer.Option("--keep-old", help="Leave what was promoted before loaded.")]


@app.command("list")
def list_policies(
    context: typer.Context,
    server: Server = None,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """List the versions, with what is promoted and what the planner's server holds."""
    from agentflow.console.policy_table import print_policies

    config, registry = _open(context, config_file, overrides)
    policies = registry.versions()
    if not policies and not as_json:
        PlainConsole(stderr=True).print(f"There are no policies in {registry.directory} yet.", soft_wrap=True)
        return
    print_policies(
        policies, promoted=registry.promoted(), loaded=asyncio.run(held_policies(config, server)), as_json=as_json
    )


@app.command("show")
def show(
    context: typer.Context,
    name: Name,
    server: Server = None,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Show everything that is known of a version, after checking that its files are unchanged."""
    from agentflow.console.policy_table import as_object, print_policy

    config, registry = _open(context, config_file, overrides)
    policy, promoted = registry.verify(name), registry.promoted()
    loaded = asyncio.run(held_policies(config, server))
    if as_json:
        print(json.dumps(as_object(policy, promoted=promoted, loaded=loaded)))
        return
    print_policy(policy, promoted=promoted, loaded=loaded, directory=str(registry.path(name)))


@app.command("add")
def add(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(metavar="DIR", help="A PEFT adapter, or a model with safetensors.", show_default=False)
    ],
    name: Annotated[str, typer.Option(help="The line of versions that it goes on.")] = "planner",
    base_model: Annotated[
        str | None, typer.Option(help="Directory or hub name of its base.", show_default="what an adapter says")
    ] = None,
    base_revision: Annotated[str | None, typer.Option(help="The base's revision on the hub.")] = None,
    parent: Annotated[str | None, typer.Option(help="The version that training started from.")] = None,
    training_run: Annotated[str | None, typer.Option(help="What it came from.")] = None,
    metric: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Something measured of it.")] = None,
    notes: Annotated[str, typer.Option(help="For people.")] = "",
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Copy an adapter or a model into the registry as the next version."""
    _, registry = _open(context, config_file, overrides)
    if base_model is not None and (directory := Path(base_model).expanduser()).is_dir():
        base_model = str(directory.absolute())
    policy = registry.add(
        source.expanduser(),
        name=name,
        base_model=base_model,
        base_revision=base_revision,
        parent=parent,
        training_run=training_run,
        metrics=dict(_metric(text) for text in metric or ()),
        notes=notes,
    )
    if as_json:
        print(json.dumps({"policy": policy.full_name, **policy.model_dump(mode="json")}))
        return
    PlainConsole().print(f"Added {policy.full_name} ({policy.kind} of {policy.base_model}).", soft_wrap=True)


@app.command("remove")
def remove(context: typer.Context, name: Name, config_file: ConfigFile = None, overrides: Overrides = None) -> None:
    """Remove a version that is not promoted from the disk. Its name is not used again."""
    _, registry = _open(context, config_file, overrides)
    registry.remove(name)
    print(f"Removed {name}.")


@app.command("load")
def load(
    context: typer.Context,
    name: NameOrBase,
    server: Server = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Have the server hold a version, whatever is promoted."""
    from graph.policies import promotion

    config, registry = _open(context, config_file, overrides)

    async def work(control: "VLLMControl") -> None:
        await promotion.load(registry, _version(name), control, on_notice=_notice)
        PlainConsole().print(f"{name} is loaded at {control.base_url}.", soft_wrap=True)

    asyncio.run(_on_server(config, server, work))


@app.command("unload")
def unload(
    context: typer.Context,
    name: Name,
    server: Server = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Unload an adapter from the server; calls under way finish. What is promoted comes back with the next question."""
    from graph.policies import promotion

    config, _ = _open(context, config_file, overrides)

    async def work(control: "VLLMControl") -> None:
        await promotion.unload(name, control)
        PlainConsole().print(f"{name} is not loaded at {control.base_url} any more.", soft_wrap=True)

    asyncio.run(_on_server(config, server, work))


@app.command("promote")
def promote(
    context: typer.Context,
    name: NameOrBase,
    server: Server = None,
    keep_old: KeepOld = False,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Have chat and evaluations use a version from their next call on, once the planner's server holds it."""
    from graph.policies import promotion

    config, registry = _open(context, config_file, overrides)
    _check_engine(config, registry, _version(name), server)

    async def work(control: "VLLMControl | None") -> "Promoted":
        return await promotion.promote(registry, _version(name), server=control, keep_old=keep_old, on_notice=_notice)

    _report(asyncio.run(_with_server(config, server, work)), as_json=as_json)


@app.command("rollback")
def rollback(
    context: typer.Context,
    server: Server = None,
    keep_old: KeepOld = False,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Go back to what was promoted before; once more goes back further."""
    from graph.policies import promotion

    config, registry = _open(context, config_file, overrides)
    _check_engine(config, registry, registry.promotions().roll_back(registry.names()).current, server)

    async def work(control: "VLLMControl | None") -> "Promoted":
        return await promotion.roll_back(registry, server=control, keep_old=keep_old, on_notice=_notice)

    _report(asyncio.run(_with_server(config, server, work)), as_json=as_json)


def _open(
    context: typer.Context, config_file: Path | None, overrides: list[str] | None
) -> "tuple[FlowConfig, PolicyRegistry]":
    from graph.policies.registry import PolicyRegistry  # here, as `--help` needs no pydantic

    config = settings(context, config_file, overrides).config
    return config, PolicyRegistry(config.policies.directory)


def _version(name: str) -> str | None:
    from graph.policies.settings import BASE

    return None if name == BASE else name


def _metric(text: str) -> tuple[str, float]:
    from graph.errors import ConfigError

    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not name.strip() or not math.isfinite(number):
        raise ConfigError(f"--metric {text!r} must look like accuracy=0.5.")
    return name.strip(), number


def _check_engine(config: "FlowConfig", registry: "PolicyRegistry", full_name: str | None, server: str | None) -> None:
    """Refuse full weights for a planner on the embedded engine, which reads adapters only."""
    from graph.errors import ConfigError

    if full_name is None or server is not None or not config.models.of("planner").embedded:
        return
    if registry.get(full_name).kind == "weights":
        raise ConfigError(
            f"{full_name} holds full weights, which the embedded engine does not read: serve them with vLLM and set "
            "models.planner.base_url, or promote an adapter."
        )


async def _with_server(
    config: "FlowConfig", url: str | None, work: "Callable[[VLLMControl | None], Awaitable[Promoted]]"
) -> "Promoted":
    async with planner_server(config, url) as control:
        if control is None:
            _notice(f"Nothing is loaded now: {why_none(config, url)}.")
        return await work(control)


async def _on_server(config: "FlowConfig", url: str | None, work: "Callable[[VLLMControl], Awaitable[None]]") -> None:
    from graph.errors import ConfigError

    async with planner_server(config, url) as control:
        if control is None:
            raise ConfigError(f"No policy can be loaded or unloaded: {why_none(config, url)}.")
        await work(control)


def _report(done: "Promoted", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(done)))
        return
    before, now = done.before or "base", done.now or "base"
    text = f"{now} is promoted" + (f"; it was {before} before." if before != now else ", as before.")
    if done.unloaded:
        text += f" Unloaded {', '.join(done.unloaded)}."
    PlainConsole().print(text, soft_wrap=True)


def _notice(text: str) -> None:
    PlainConsole(stderr=True).print(text, style="yellow", soft_wrap=True)
