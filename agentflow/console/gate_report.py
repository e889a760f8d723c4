"""What the gate before training found, for people and for programs."""

import json
from collections.abc import Iterable, Iterator, Mapping

from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import one_line
from training.gate.meaning import Level
from training.gate.report import GateReport, Problem

_HEADINGS: dict[Level, str] = {
    "problem": "What keeps trajectories from being used exactly",
    "warning": "Worth knowing",
    "note": "Harmless",
}
_STYLES: dict[Level, str] = {"problem": "yellow", "warning": "cyan", "note": "dim"}
_UNITS = {"record": "records", "trajectory": "trajectories", "group": "groups"}
_WIDTH = 120
_MOST_NAMES = 6
_EXAMPLE_CHARS = 200


def print_report(report: GateReport, *, written: Mapping[str, int] | None, as_json: bool) -> None:
    """Print a report: how much can be used first, then what is wrong and what to do.

    `written` is how many trajectories went into each file; None where none were asked for.
    """
    if as_json:
        print(json.dumps({**report.model_dump(mode="json"), "written": written}))
        return
    console = PlainConsole()
    width = min(console.width, _WIDTH) if console.live else None
    _print_rows(console, _uses(report), width, "bold")
    console.print()
    _print_rows(console, _facts(report), width, "")
    for level, heading in _HEADINGS.items():
        found = [problem for problem in report.problems if problem.level == level]
        if found:
            console.print(Text(f"\n{heading}", style="bold"))
            _print_rows(console, map(_problem, found), width, _STYLES[level])
    if report.not_checked:
        console.print(Text("\nNot checked", style="bold"))
        for sentence in report.not_checked:
            console.print(Text(sentence), soft_wrap=not console.live)
    console.print()
    console.print(Text(_last(report, written)), soft_wrap=not console.live)


def _print_rows(console: PlainConsole, rows: Iterable[tuple[str, str, str]], width: int | None, style: str) -> None:
    """Print label, number and text: in columns on a terminal, the text's later lines dim; a line each elsewhere."""
    lines = [(label, number, [one_line(part) for part in text.split("\n")]) for label, number, text in rows]
    if width is None:
        for label, number, parts in lines:
            print("\t".join((label, number, " ".join(parts))))
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style=style)
    table.add_column(no_wrap=True, justify="right", style=style)
    table.add_column(overflow="fold")
    for label, number, parts in lines:
        first, *others = parts
        table.add_row(Text(label), Text(number), Text.assemble(first, *((f"\n{part}", "dim") for part in others)))
    console.print(table, width=width)


def _uses(report: GateReport) -> Iterator[tuple[str, str, str]]:
    groups = report.groups.trainable
    yield (
        "exact",
        f"{report.exact:,}",
        f"as recorded: {groups:,} groups, {report.turns:,} planner calls, {report.tokens:,} sampled tokens",
    )
    yield "questions only", f"{report.questions_only:,}", f"to roll out again: {report.questions:,} different questions"
    both = report.demonstrations - report.demonstrations_only - report.exact_demonstrations
    shared = f": {report.exact_demonstrations:,} are exact, and {both:,} questions only, too"
    yield "demonstrations", f"{report.demonstrations:,}", f"to imitate{shared if report.demonstrations else ''}"
    why = "no success, and no reference to score another answer by; or a benchmark's question"
    yield "unusable", f"{report.unusable:,}", why if report.unusable else ""
    yield "of", f"{report.trajectories:,}", "trajectories"


def _facts(report: GateReport) -> Iterator[tuple[str, str, str]]:
    groups = report.groups
    states = {
        "trainable": groups.trainable,
        "of one scored member": groups.of_one,
        "with equal rewards": groups.zero_variance,
        "mixed": groups.mixed,
        "with no exact member": groups.inexact,
        "without a reward": groups.unscored,
    }
    yield "groups", f"{groups.all:,}", ", ".join(f"{count:,} {name}" for name, count in states.items() if count)
    calls = f"planner calls by {_names(report.policies)}" if report.policies else ""
    yield (
        "policy",
        "",
        "; ".join(part for part in (f"{report.policy} is trained" if report.policy else "", calls) if part),
    )
    temperatures = _names({f"{value:g}": count for value, count in report.temperatures.items()})
    trained = "" if report.temperature is None else f"{report.temperature:g} is trained at; "
    yield "temperature", "", f"{trained}trajectories at {temperatures}" if temperatures else "unknown"
    yield "benchmarks", "", _names(report.benchmarks) + _overlaps(report)
    if counts := report.tokenizer:
        yield (
            "tokenizer",
            "",
            f"{counts.model}: {counts.same_prompts:,} of {counts.prompts:,} prompts and "
            f"{counts.same_texts:,} of {counts.texts:,} completions match",
        )


def _overlaps(report: GateReport) -> str:
    found = [f"{count:,} {how} in {name}" for name, counts in report.overlaps.items() for how, count in counts.items()]
    return f"; trajectories: {', '.join(found)}" if found else "; no overlap"


def _problem(problem: Problem) -> tuple[str, str, str]:
    alone = f" ({problem.alone:,} of them with no other problem)" if problem.alone else ""
    examples = ", ".join(example[:_EXAMPLE_CHARS].removesuffix(".") for example in problem.examples)
    said = f"{_UNITS[problem.unit]} {problem.what}{alone}. {problem.todo}"
    return problem.kind.value, f"{problem.count:,}", f"{said}\nExamples: {one_line(examples)}."


def _last(report: GateReport, written: Mapping[str, int] | None) -> str:
    if not report.trainable:
        return "Nothing can be trained on."
    if written is None:
        return "--out DIR writes the trajectories to a file for each use."
    return "\n".join(f"Wrote {count:,} to {one_line(path)}" for path, count in written.items())


def _names(counts: Mapping[str, int]) -> str:
    shown = [f"{name} {count:,}" for name, count in list(counts.items())[:_MOST_NAMES]]
    left = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left > 0 else "")
