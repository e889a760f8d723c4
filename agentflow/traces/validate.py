"""`agentflow traces validate`: the gate before training."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.console.counter import Counter
from agentflow.options import AsJson, ConfigFile, Overrides, settings
from agentflow.traces.options import Chosen, trajectories, with_filters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evals.overlap import BenchmarkQuestions
    from graph.config import FlowConfig
    from graph.trace import Trajectory
    from graph.traces.reading import OnDamage
    from training.gate.settings import GateSettings

_STANDARD_INPUT = Path("-")


@with_filters
def validate(
    context: typer.Context,
    chosen: Chosen,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Check token ids against this model: a directory, or a name on the hub."),
    ] = None,
    trained: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="NAME",
            help="The version about to be trained, such as planner@v3, or base.",
            show_default="the newest among the traces",
        ),
    ] = None,
    max_staleness: Annotated[int, typer.Option(min=0, help="How many versions behind it a plan may be.")] = 0,
    temperature: Annotated[
        float | None,
        typer.Option(help="What the planner is trained at.", show_default="that of most usable trajectories"),
    ] = None,
    benchmark: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Questions that must not be trained on, besides the starter set: JSON."),
    ] = None,
    success: Annotated[float, typer.Option(metavar="R", help="Reward from which on plans may be imitated.")] = 1.0,
    judge: Annotated[bool, typer.Option("--judge", help="A judge will score answers without a reference.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the trajectories to a file for each use.")
    ] = None,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Say what can be trained on, what is wrong with the rest, and what to do; status 1 when nothing can be."""
    from agentflow.console.gate_report import print_report
    from training.gate.gate import Gate
    from training.gate.sorting import FILES, SortedFiles, refuse_full
    from training.gate.tokenizer import TokenizerCheck

    config = settings(context, config_file, overrides).config
    strictness = _settings(trained, max_staleness, temperature, success, judge=judge)
    if out is not None:
        refuse_full(out)
        _refuse_standard_input(chosen)
    benchmarks = _benchmarks(benchmark or [])
    gate = Gate(strictness, benchmarks=benchmarks, tokenizer=TokenizerCheck(model) if model is not None else None)
    asyncio.run(_each(config, chosen, "Read", gate.add, gate.damaged))
    sorting = gate.judge()
    if chosen.selection.cuts_groups:
        sorting = sorting.with_note(
            "Whole groups: filters other than --group, --dataset, --source and --text can take members out of a group, "
            "and its baseline is biased then."
        )
    written = None
    if out is not None and sorting.report.trainable:
        with SortedFiles(sorting, out) as files:
            asyncio.run(_each(config, chosen, "Sorted", files.write, lambda _: None))
        written = {str(out / FILES[use]): count for use, count in files.written.items()}
    print_report(sorting.report, written=written, as_json=as_json)
    if not sorting.report.trainable:
        raise typer.Exit(1)


async def _each(
    config: "FlowConfig", chosen: Chosen, verb: str, take: "Callable[[Trajectory], None]", on_damage: "OnDamage"
) -> None:
    """Hand over each of the chosen trajectories without the keys that may stand in it: no file of ours has them."""
    from graph.traces.redaction import Redactor

    redactor = Redactor.of(config, personal=False, own={})
    number = 0
    with Counter(verb, "trajectories") as count:
        async for trajectory in trajectories(config, chosen, on_damage):
            take(redactor.redact(trajectory))
            number += 1
            count(number)


def _settings(
    trained: str | None, max_staleness: int, temperature: float | None, success: float, *, judge: bool
) -> "GateSettings":
    from pydantic import ValidationError

    from graph.errors import ConfigError
    from graph.policies.policy import split_name
    from training.gate.settings import GateSettings

    if trained is not None and "@" in trained:
        split_name(trained)
    try:
        return GateSettings(
            policy=trained, max_staleness=max_staleness, temperature=temperature, success=success, judge=judge
        )
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        bound = "a number above 0" if name == "temperature" else "a number"
        raise ConfigError(f"--{name} must be {bound}.") from error


def _benchmarks(files: "Sequence[Path]") -> "BenchmarkQuestions":
    """Return the questions of the starter set and of files, each under the file's name without its ending.

    Raises:
        ConfigError: a file cannot be read, or two have the same name.
    """
    from evals.overlap import BenchmarkQuestions, read_questions
    from evals.starter import load_starter
    from graph.errors import ConfigError

    benchmarks = {"starter": [sample.question for sample in load_starter("all")]}
    for file in files:
        if file.stem in benchmarks:
            raise ConfigError(f"There are two benchmarks named {file.stem}: rename one of the files.")
        benchmarks[file.stem] = read_questions(file)
    return BenchmarkQuestions(benchmarks)


def _refuse_standard_input(chosen: Chosen) -> None:
    from graph.errors import ConfigError

    if _STANDARD_INPUT in chosen.files:
        raise ConfigError("--out reads the traces twice, and standard input only comes once: give a file.")
