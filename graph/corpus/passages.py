"""The parts of one long text that matter for a query.

The text is cut into passages of a few sentences, and bm25 over these passages alone, in an FTS5 table in memory,
chooses among them with the same query and the same second look that searches a corpus. What is chosen keeps the text's
order.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

from graph.corpus.query import match_expression
from graph.corpus.ranking import rerank_gain

PASSAGE_CHARS = 400
"""Passages are whole sentences up to about this length; a longer sentence is cut between words."""

_PARAGRAPH_END = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*#|]|\d+[.)]))")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+|\n")  # noqa: RUF001 - other scripts' sentence ends


def best_passages(text: str, query: str, *, budget_chars: int, passage_chars: int = PASSAGE_CHARS) -> list[str]:
    """The passages of `text` that answer `query` best, together at most `budget_chars` long, in the text's order.

    A text within the budget comes back whole. Where no word of the query occurs, the text's beginning does.
    """
    text = text.strip()
    if len(text) <= budget_chars:
        return [text] if text else []
    passages = list(_split(text, min(passage_chars, budget_chars)))
    ranked = _ranked(passages, query)
    chosen: list[int] = []
    left = budget_chars
    for position in ranked or range(len(passages)):
        if len(passages[position]) <= left:
            chosen.append(position)
            left -= len(passages[position]) + 1
        elif not ranked:
            break
        if left < passage_chars // 4:
            break
    return _joined(passages, sorted(chosen))


def _ranked(passages: list[str], query: str) -> list[int]:
    """Positions of the passages that share a word with the query, best first."""
    expression = match_expression(query)
    if expression is None:
        return []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE search USING fts5 (text, tokenize='porter unicode61')")
        connection.executemany(
            "INSERT INTO search (rowid, text) VALUES (?, ?)",
            ((position, passage.encode("utf-8", "replace").decode()) for position, passage in enumerate(passages)),
        )
        rows = connection.execute(
            "SELECT rowid, bm25(search) FROM search WHERE search MATCH ? ORDER BY 2 LIMIT 200", (expression,)
        ).fetchall()
    gain = rerank_gain(query)
    return [row[0] for row in sorted(rows, key=lambda row: row[1] * gain("", passages[row[0]]))]


def _split(text: str, size: int) -> Iterator[str]:
    for paragraph in _PARAGRAPH_END.split(text):
        window = ""
        for sentence in _sentences(paragraph, size):
            if window and len(window) + 1 + len(sentence) > size:
                yield window
                window = ""
            window = f"{window} {sentence}" if window else sentence
        if window:
            yield window


def _sentences(paragraph: str, size: int) -> Iterator[str]:
    start = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(paragraph)), len(paragraph)]:
        sentence = " ".join(paragraph[start:end].split())
        start = end
        while len(sentence) > size:
            cut = sentence.rfind(" ", size // 2, size)
            cut = cut if cut > 0 else size
            yield sentence[:cut]
            sentence = sentence[cut:].lstrip()
        if sentence:
            yield sentence


def _joined(passages: list[str], positions: list[int]) -> list[str]:
    """The passages at these positions, neighbours as one."""
    runs: list[str] = []
    previous = -2
    for position in positions:
        if position == previous + 1:
            runs[-1] = f"{runs[-1]} {passages[position]}"
        else:
            runs.append(passages[position])
        previous = position
    return runs
