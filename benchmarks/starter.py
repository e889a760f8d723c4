"""The flow against the same model's direct answers, on the 90 questions of the starter set.

    python benchmarks/starter.py --split held_out

`direct` is the flow without turns: the generator answers at once, from its own prompt. `plain` is the bare question
with a request to give only the final answer. Prints accuracy with Wilson's 95 % interval for each, McNemar's exact test
on the pairs, accuracy by kind, and every failure of the flow. Answers are kept in the results file as they come; a
second run with the same file asks only what is missing.
"""

import argparse
import asyncio
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from evals.compare import Accuracy, accuracy, compare
from evals.sample import Sample
from evals.score import Score
from evals.scorers.exact import exact
from evals.starter import load_starter
from graph.config import load_config
from graph.deadline import Deadline
from graph.prompt import Message
from graph.runner import Runner, open_runner

TOOLS = ("python", "search_corpus", "generate")
"""The tools that need no network."""
SYSTEMS = ["flow", "direct", "plain"]
SETTINGS = ["models.default.seed=1", "budgets.max_turns=5"]
"""Fixed for both systems: the same run twice, and no long waits for questions that are lost. Other settings are the
defaults."""


async def ask_plainly(runner: Runner, sample: Sample, file: Path) -> None:
    """Put the bare question to the generator's model and append the result."""
    start = time.monotonic()
    message = Message(role="user", content=f"{sample.question}\nGive only the final answer, nothing else.")
    call = await runner.models["generator"].complete([message], schema=None, deadline=Deadline(300), turn=-1)
    answer = call.text.strip()
    write(file, sample, "plain", answer, {"seconds": round(time.monotonic() - start, 1)})


async def ask(runner: Runner, sample: Sample, file: Path, system: str) -> None:
    """Run one sample through the flow and append the result."""
    start = time.monotonic()
    trajectory = await runner.ask(sample.question, reference=sample.answers)
    more = {
        "error": trajectory.error,
        "seconds": round(time.monotonic() - start, 1),
        "stop": trajectory.stop,
        "tools": [turn.plan.tool if turn.plan else None for turn in trajectory.turns],
        "trajectory": trajectory.model_dump(mode="json"),
    }
    write(file, sample, system, trajectory.answer, more)


def write(file: Path, sample: Sample, system: str, answer: str | None, more: dict[str, Any]) -> None:
    """Append a result."""
    row = {"id": sample.id, "system": system, "kind": sample.kind, "answer": answer, **more}
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row, ensure_ascii=False) + "\n")


async def answer_all(samples: list[Sample], file: Path, overrides: list[str], systems: list[str]) -> None:
    """Ask what the results file does not hold yet."""
    done = {(row["system"], row["id"]) for row in read(file)}
    for system in systems:
        todo = [sample for sample in samples if (system, sample.id) not in done]
        if not todo:
            continue
        turns = ["budgets.max_turns=0"] if system == "direct" else []
        config = load_config(overrides=[*SETTINGS, *turns, *overrides]).config
        async with open_runner(config, tools=TOOLS) as runner:
            for sample in track(todo, f"{system}: {len(todo)} questions", console=Console(stderr=True)):
                if system == "plain":
                    await ask_plainly(runner, sample, file)
                else:
                    await ask(runner, sample, file, system)


def read(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a results file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def show(samples: list[Sample], rows: list[dict[str, Any]], console: Console) -> None:
    """Print the comparison."""
    scores: dict[str, dict[str, Score]] = defaultdict(dict)
    by_id = {sample.id: sample for sample in samples}
    for row in rows:
        if row["id"] in by_id:
            scores[row["system"]][row["id"]] = exact(row["answer"] or "", by_id[row["id"]].answers)
    table = Table("", *scores)
    table.add_row("all", *(shown(accuracy(list(found.values()))) for found in scores.values()))
    for kind in sorted({sample.kind for sample in samples}):
        of_kind = [[s for key, s in found.items() if by_id[key].kind == kind] for found in scores.values()]
        table.add_row(kind, *(f"{sum(s.value or 0 for s in part):g} of {len(part)}" for part in of_kind))
    console.print(table)
    for baseline in ("direct", "plain"):
        if {"flow", baseline} <= scores.keys():
            pair = compare(candidate=scores["flow"], baseline=scores[baseline])
            console.print(
                f"Only the flow right: {pair.only_candidate}; only {baseline}: {pair.only_baseline}; "
                f"McNemar's exact test: p = {pair.p_value:.2g}"
            )
    flow = [row for row in rows if row["system"] == "flow" and row["id"] in by_id]
    seconds = sorted(row["seconds"] for row in flow)
    if seconds:
        console.print(f"Flow: median {seconds[len(seconds) // 2]} s, slowest {seconds[-1]} s a question")
    for row in flow:
        if not scores["flow"][row["id"]].value:
            wanted = " | ".join(by_id[row["id"]].answers)
            console.print(
                f"✗ {row['id']} {row['tools']} {row['answer'] or row['error']!r}, wanted {wanted!r}", markup=False
            )


def shown(found: Accuracy) -> str:
    """Render an accuracy with its interval."""
    return f"{found.right} of {found.graded + found.ungraded} ({found.low:.0%} to {found.high:.0%})"


def main() -> None:
    """Parse arguments, ask, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=["tune", "held_out", "all"], default="all")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--results", type=Path, default=Path("starter-results.jsonl"))
    parser.add_argument("--kinds", nargs="*", help="only these kinds of questions")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting")
    arguments = parser.parse_args()
    samples = [s for s in load_starter(arguments.split) if not arguments.kinds or s.kind in arguments.kinds]
    asyncio.run(answer_all(samples, arguments.results, arguments.set, arguments.systems))
    show(samples, read(arguments.results), Console())


if __name__ == "__main__":
    main()
