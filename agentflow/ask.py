"""`agentflow ask`: one question, live."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.console.terminal import PlainConsole
from agentflow.options import AsJson, ConfigFile, Debug, NoStream, Overrides, Verbose, settings
from agentflow.question import read_question
from agentflow.session import View, show_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from graph.events import Event
    from graph.runner import Runner
    from graph.trace import Trajectory


def ask(
    context: typer.Context,
    question: Annotated[
        str, typer.Argument(help="What you want to know; - reads it from standard input.", show_default=False)
    ],
    tools: Annotated[str | None, typer.Option(metavar="A,B", help="The only tools to offer.")] = None,
    max_turns: Annotated[int | None, typer.Option(help="Turns before it has to answer; 0 answers directly.")] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on from an earlier run: a follow-up question.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="Version of the planner: base, promoted, or such as planner@v3.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A word to find the run by; several are kept.")] = None,
    cache: Annotated[bool, typer.Option("--cache", help="Keep results of tools, and use the kept ones.")] = False,
    as_json: AsJson = False,
    no_stream: NoStream = False,
    verbose: Verbose = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    debug: Debug = False,  # noqa: ARG001 - `run` looks for it before anything is parsed
) -> None:
    """Ask a question and see every turn that leads to the answer."""
    text = read_question(question)
    extra = [f"budgets.max_turns={max_turns}"] if max_turns is not None else []
    extra += ["tools.cache=true"] if cache else []
    extra += [f"policies.use={json.dumps(policy)}"] if policy is not None else []
    loaded = settings(context, config_file, overrides, extra=tuple(extra))
    from graph.known_secrets import KnownSecrets

    text = KnownSecrets.of(loaded.config).hide(text)
    named = _names(tools) if tools is not None else None

    async def work(runner: "Runner", on_event: "Callable[[Event], None]") -> "Trajectory":
        thread = await _conversation(runner, conversation)
        return await runner.ask(text, on_event=on_event, conversation=thread, tags=tag or ())

    view = View(as_json=as_json, stream=not no_stream, verbose=verbose)
    trajectory = show_run(loaded.config, view, work, question=text, tools=named)
    if not as_json:
        hint = f'follow up with: agentflow ask --conversation {trajectory.id} "…"'
        PlainConsole(stderr=True).print(hint, style="dim", soft_wrap=True)


def _names(tools: str) -> list[str]:
    from graph.errors import ConfigError

    names = [name.strip() for name in tools.split(",") if name.strip()]
    if not names:
        raise ConfigError("--tools names no tool: separate names by commas, or leave it out for all.")
    return names


async def _conversation(runner: "Runner", earlier: str | None) -> str:
    """Return the id of a new conversation, or of the one that an earlier run, or the id itself, names.

    Raises:
        ConfigError: there is no such run or conversation.
    """
    from uuid_utils import uuid7

    from graph.errors import ConfigError

    if earlier is None:
        return str(uuid7())
    assert runner.database is not None
    runs = runner.database.runs
    if row := await runs.get(earlier):
        if row.conversation is None:
            raise ConfigError(f"The run {row.id} belongs to no conversation: ask a new question.")
        return row.conversation
    if await runs.conversation(earlier):
        return earlier
    raise ConfigError(f"There is no run or conversation {earlier!r}: `agentflow runs list` shows the runs.")
