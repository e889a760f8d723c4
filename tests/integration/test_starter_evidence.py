"""Every fact that the starter set asks for stands in the starter corpus, word for word."""

import json
import sqlite3
from contextlib import closing
from importlib.resources import files
from typing import Any

import pytest

from graph.corpus.location import default_index_path

pytestmark = pytest.mark.engine

ROWS = map(json.loads, (files("evals") / "data" / "starter.jsonl").read_text("utf-8").splitlines())
QUOTES = [(row["id"], item) for row in ROWS for item in row.get("evidence", [])]


@pytest.mark.parametrize(("sample", "evidence"), QUOTES, ids=[f"{sample}-{item['title']}" for sample, item in QUOTES])
def test_the_corpus_holds_the_evidence(sample: str, evidence: dict[str, Any]) -> None:
    path = default_index_path()
    if not path.is_file():
        pytest.skip(f"needs the starter corpus at {path} (agentflow setup)")
    subject = evidence["title"].split(": ", 1)[1].split(",")[0]
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        found = connection.execute(
            "SELECT count(*) FROM documents WHERE title LIKE ? || '%' AND instr(text, ?)", (subject, evidence["quote"])
        ).fetchone()
    assert found[0] > 0
