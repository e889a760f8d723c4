"""How well `search_corpus` finds the document that answers a simple question, and whether the answer is in its output.

    python benchmarks/corpus_search.py [--index PATH] [--verbose]

The index is the starter corpus that `agentflow setup` makes, unless another is given. Of the questions in
corpus_questions.jsonl, `tune` chose the weights of graph/corpus/index.py and ranking.py, and the misses of `tune` and
`check` suggested the words added in query.py; `fresh` was written after that, and nothing was changed upon it. A hit is
a document whose title matches the question's `about` and whose title or text matches its `answer`; a question that no
document of the index answers is left out and named. "plain" is bm25 with unweighted titles and the same query, for
comparison.
"""

import argparse
import asyncio
import json
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from graph.corpus.index import CorpusIndex, Hit
from graph.corpus.location import default_index_path
from graph.corpus.query import match_expression
from graph.corpus.schema import open_read_only
from graph.errors import StorageError
from graph.tools import search_corpus
from graph.tools.settings import CorpusSettings

QUESTIONS = Path(__file__).with_name("corpus_questions.jsonl")


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    arguments.add_argument("--index", type=Path, default=default_index_path())
    arguments.add_argument("--verbose", action="store_true", help="print each question that is missed")
    options = arguments.parse_args()
    try:
        index = CorpusIndex(options.index)
    except StorageError as error:
        sys.exit(str(error))
    questions = answerable(index, [json.loads(line) for line in QUESTIONS.read_text().splitlines()])
    print(f"{index.info().documents} documents in {options.index}")
    print(f"{'set':6} {'ranking':8} {'n':>3} {'hit@1':>6} {'hit@3':>6} {'hit@5':>6}  answer in output")
    for name in ("tune", "check", "fresh"):
        chosen = [question for question in questions if question["set"] == name]
        report(name, "plain", chosen, [plain(index, question["question"]) for question in chosen])
        started = time.perf_counter()
        found = [index.search(question["question"], 5) for question in chosen]
        seconds = time.perf_counter() - started
        outputs = asyncio.run(run_tool(options.index, chosen))
        report(name, "ours", chosen, found, outputs, verbose=options.verbose)
        length = statistics.mean(map(len, outputs))
        print(f"       {1000 * seconds / len(chosen):.0f} ms a search, {length:.0f} characters of output on average")


def answerable(index: CorpusIndex, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The questions that some document answers; the others are printed."""
    connection = open_read_only(index.path)
    documents = [Hit(*row, 0.0) for row in connection.execute("SELECT id, title, text, source FROM documents")]
    connection.close()
    kept = []
    for question in questions:
        if any(answers(question, document) for document in documents):
            kept.append(question)
        else:
            print(f"left out, no document answers it: {question['question']}")
    return kept


def answers(question: dict[str, Any], hit: Hit) -> bool:
    """Whether a document answers the question."""
    about = re.search(question["about"], hit.title, re.IGNORECASE)
    return bool(about and re.search(question["answer"], f"{hit.title} {hit.text}", re.IGNORECASE))


def report(
    name: str,
    ranking: str,
    questions: list[dict[str, Any]],
    found: list[list[Hit]],
    outputs: list[str] | None = None,
    *,
    verbose: bool = False,
) -> None:
    """Print a row: how many questions have an answering document among the first 1, 3 and 5."""
    ranks = [rank(question, hits) for question, hits in zip(questions, found, strict=True)]
    at = [sum(place <= k for place in ranks) for k in (1, 3, 5)]
    answered = [
        bool(re.search(question["answer"], output, re.IGNORECASE))
        for question, output in zip(questions, outputs or [], strict=outputs is not None)
    ]
    tail = f"  {sum(answered)}" if outputs is not None else ""
    print(f"{name:6} {ranking:8} {len(questions):3} {at[0]:6} {at[1]:6} {at[2]:6}{tail}")
    if verbose:
        for question, place, hits in zip(questions, ranks, found, strict=True):
            if place > 3:
                print(f"       missed: {question['question']} -> {', '.join(hit.title for hit in hits[:3])}")


def rank(question: dict[str, Any], hits: list[Hit]) -> int:
    """The place of the first document that answers; 99 for none."""
    return next((place for place, hit in enumerate(hits, start=1) if answers(question, hit)), 99)


def plain(index: CorpusIndex, question: str) -> list[Hit]:
    """The first five by unweighted bm25."""
    connection = open_read_only(index.path)
    rows = connection.execute(
        "SELECT d.id, d.title, d.text, d.source, -bm25(search) AS score FROM search "
        "JOIN documents AS d ON d.rowid = search.rowid WHERE search MATCH ? ORDER BY score DESC LIMIT 5",
        (match_expression(question),),
    ).fetchall()
    connection.close()
    return [Hit(*row) for row in rows]


async def run_tool(path: Path, questions: list[dict[str, Any]]) -> list[str]:
    """What the tool gives the model for each question."""
    tool = search_corpus.build(CorpusSettings(path=path))
    return [str(await tool.ainvoke({"query": question["question"]})) for question in questions]


if __name__ == "__main__":
    main()
