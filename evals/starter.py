"""The starter set: 90 everyday questions, frozen before any prompt was tuned."""

import json
from importlib.resources import files
from typing import Literal

from evals.sample import Sample


def load_starter(split: Literal["tune", "held_out", "all"]) -> list[Sample]:
    """The 60 questions to tune on, the 30 to leave untouched until the end, or all, in the order of the file.

    Answers are graded by `evals.scorers.exact`.
    """
    lines = (files("evals") / "data" / "starter.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        Sample(id=row["id"], question=row["question"], answers=row["answer"], kind=row["kind"], split=row["split"])
        for row in rows
        if split in ("all", row["split"])
    ]
