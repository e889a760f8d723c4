"""`agentflow setup`: fetches the embedded model and the starter corpus, and makes the first question start warm."""

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentflow.console.terminal import PlainConsole, complain
from agentflow.console.text import seconds
from agentflow.options import ConfigFile, Overrides, settings

if TYPE_CHECKING:
    from graph.assets import Asset
    from graph.config import FlowConfig

ModelName = Literal["1.5b", "0.5b"]


def setup(
    context: typer.Context,
    model: Annotated[ModelName | None, typer.Option(help="The embedded model.", show_default="local.model")] = None,
    no_corpus: Annotated[bool, typer.Option("--no-corpus", help="Leave the starter corpus out.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Hash again what was fetched before.")] = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Fetch what the embedded model and the starter corpus need. Goes on where it was interrupted."""
    from graph.assets import CORPUS, MODELS

    loaded = settings(context, config_file, overrides, extra=(f"local.model={model}",) if model else ())
    config, console = loaded.config, PlainConsole()
    wanted = [MODELS[config.local.model]] if config.local.model in MODELS else []
    wanted += [] if no_corpus else CORPUS
    try:
        _fetch(wanted, console, verify=verify)
    except KeyboardInterrupt:
        complain("Stopped; `agentflow setup` goes on where this was.")
        raise typer.Exit(130) from None
    if not no_corpus:
        _build_index(console, anew=verify)
    _warm(config, console)
    _attribute(wanted, console)
    if model and settings(context, config_file, overrides).config.local.model != model:
        console.print(f'To use this model, set local.model = "{model}" in agentflow.toml.', soft_wrap=True)
    console.print('Ready: agentflow ask "What is 17 % of 2,340?"', soft_wrap=True)


def _fetch(assets: "list[Asset]", console: PlainConsole, *, verify: bool) -> None:
    from agentflow.console.progress import Downloads
    from graph.assets import ensure, is_fetched

    missing = [asset for asset in assets if verify or not is_fetched(asset)]
    for asset in assets:
        if asset not in missing:
            console.print(f"The {asset.title} is here.", soft_wrap=True)
    if not missing:
        return
    with Downloads(console) as downloads:
        for asset in missing:
            ensure(asset, downloads)


def _build_index(console: PlainConsole, *, anew: bool) -> None:
    """Build the starter corpus' index unless there is one that can be searched."""
    from graph.assets import CORPUS, path_of
    from graph.corpus.index import CorpusIndex, build_index
    from graph.corpus.location import default_index_path
    from graph.corpus.starter import starter_documents
    from graph.errors import StorageError

    path = default_index_path()
    try:
        if not anew:
            count = CorpusIndex(path).info().documents
            console.print(f"The starter corpus is indexed ({count:,} documents).", soft_wrap=True)
            return
    except StorageError:
        pass  # none, damaged, or of another version: built below
    wikipedia, factbook = map(path_of, CORPUS)
    count = build_index(starter_documents(wikipedia, factbook), path)
    console.print(f"Indexed the starter corpus: {count:,} documents.", soft_wrap=True)


def _warm(config: "FlowConfig", console: PlainConsole) -> None:
    """Have the engine read every role's prompt, so that the first question needs to read little."""
    from graph.config import ROLES

    if not any(config.models.of(role).embedded for role in ROLES):
        return
    start = time.monotonic()
    console.print("Having the model read its prompts, once; this can take a few minutes.", soft_wrap=True)
    read = asyncio.run(_read_prompts(config, console))
    if read:
        took = seconds(time.monotonic() - start)
        console.print(f"It has read {sum(read.values()):,} tokens ({took}).", soft_wrap=True)
    else:
        console.print("It had read them before.", soft_wrap=True)


async def _read_prompts(config: "FlowConfig", console: PlainConsole) -> dict[str, int]:
    from graph.engine import warm_slots
    from graph.runner import open_runner
    from graph.warmup import role_prefixes

    async with open_runner(config, on_notice=lambda text: console.print(f"{text}.", soft_wrap=True)) as runner:
        embedded = {role for role, model in runner.models.items() if config.models.of(role).embedded}
        prompts: dict[str, list[dict[str, str]]] = {
            role: [{"role": message["role"], "content": message["content"]} for message in messages]
            for role, messages in role_prefixes(runner.setup()).items()
            if role in embedded
        }
        return await asyncio.to_thread(warm_slots, config.local, prompts)


def _attribute(assets: "list[Asset]", console: PlainConsole) -> None:
    from graph.assets import ATTRIBUTION

    for asset in assets:
        console.print(ATTRIBUTION[asset.name], style="dim", soft_wrap=True)
