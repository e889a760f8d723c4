"""`agentflow corpus`: a folder of the user's own to search, and what a search finds."""

from pathlib import Path
from typing import Annotated

import typer

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import clean, one_line
from agentflow.options import AsJson, ConfigFile, Overrides, settings

app = typer.Typer(no_args_is_help=True, help="Index a folder of your own, and search an index.")

_OWN_INDEX = Path(".agentflow/corpus.db")
_SHOWN_PROBLEMS = 20
_PASSAGE_CHARS = 500


@app.command("build")
def build(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="JSONL, Markdown and text files.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(help="The index.", show_default="tools.search_corpus.path, else .agentflow/corpus.db"),
    ] = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Index a folder, or bring its index up to date: unchanged files are not read again."""
    from graph.corpus.folder import build_folder

    configured = settings(context, config_file, overrides).config.tools.search_corpus.path
    path = output or configured or _OWN_INDEX
    console = PlainConsole()
    with console.status("looking", spinner="dots") as status:
        report = build_folder(folder, path, on_file=lambda name: status.update(one_line(name)))
    for name, reason in report.skipped[:_SHOWN_PROBLEMS]:
        console.print(f"skipped {one_line(name)}: {one_line(reason)}", style="yellow", soft_wrap=True)
    if len(report.skipped) > _SHOWN_PROBLEMS:
        console.print(f"and {len(report.skipped) - _SHOWN_PROBLEMS:,} more were skipped", style="yellow")
    console.print(
        f"{path}: {report.documents:,} documents; files: {report.added} new, {report.updated} changed, "
        f"{report.removed} gone, {report.unchanged} unchanged.",
        soft_wrap=True,
    )
    if configured is None or configured != path:
        console.print(f'To search it, set tools.search_corpus.path = "{path}" in agentflow.toml.', soft_wrap=True)


@app.command("search")
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A question or keywords.", show_default=False)],
    corpus: Annotated[
        Path | None, typer.Option(help="An index.", show_default="tools.search_corpus.path, else the starter corpus")
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, help="How many documents.")] = 5,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Search an index as the search_corpus tool does."""
    from graph.corpus.index import CorpusIndex
    from graph.corpus.location import default_index_path
    from graph.corpus.passages import best_passages

    configured = settings(context, config_file, overrides).config.tools.search_corpus.path
    path = (corpus or configured or default_index_path()).expanduser()
    hits = CorpusIndex(path).search(query, top_k)
    if as_json:
        import json
        from dataclasses import asdict

        for hit in hits:
            print(json.dumps(asdict(hit)))
        return
    console = PlainConsole()
    for number, hit in enumerate(hits, start=1):
        console.print(
            f"{number}. {one_line(hit.title or hit.id)} ({one_line(hit.source)})", style="bold", soft_wrap=True
        )
        passages = best_passages(hit.text, query, budget_chars=_PASSAGE_CHARS, passage_chars=200)
        console.print(clean(" … ".join(passages)), soft_wrap=not console.live)
    if not hits:
        console.print(f"No document of {path} holds any of these words.", soft_wrap=True)
