"""The starter set is frozen, balanced, and right wherever a machine can say so."""

import ast
import calendar
import hashlib
import json
import math
import random
import re
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from importlib.resources import files
from typing import Any

import pytest

DATA = files("evals") / "data" / "starter.jsonl"
SHA256 = "c798bf2f1ace405d1a2d3bfacd7b1c2b1ec07ffd18dd3b83f00b197cbda8ca29"
SEED = 20240229
SIZES = {
    "sums": 12,
    "percentages": 12,
    "dates": 12,
    "strings": 12,
    "counting": 9,
    "units": 9,
    "facts": 15,
    "two-step": 9,
}
UNIT = r"dollars|euros|pounds|days|years|minutes|hours|seconds|m/s|°C|cm|km|m|kg|litres|square feet"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
COMPUTED = [row for row in ROWS if "check" in row]
LOOKED_UP = [row for row in ROWS if "evidence" in row]


def places(value: Fraction | int, digits: int) -> str:
    """An exact number with so many decimals; a tie is refused, as two roundings would then be right."""
    scaled = Fraction(value) * 10**digits
    assert (scaled * 2) % 2 != 1, f"{value} is a tie"
    return f"{Decimal(math.floor(scaled + Fraction(1, 2))).scaleb(-digits):.{digits}f}"


def compute(expression: str) -> str:
    """The value of a `check`: an expression over exact numbers, dates and strings, without names of its own."""
    for node in ast.walk(ast.parse(expression, mode="eval")):
        assert not (isinstance(node, ast.Attribute) and node.attr.startswith("_")), expression
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), f"{expression} is not exact"
    builtins = [all, chr, format, len, max, ord, range, reversed, sorted, str, sum]
    names = {f.__name__: f for f in builtins} | {
        "Fraction": Fraction,
        "calendar": calendar,
        "date": date,
        "math": math,
        "places": places,
        "timedelta": timedelta,
    }
    return str(eval(expression, {"__builtins__": {}, **names}))


def test_is_frozen() -> None:
    found = hashlib.sha256(DATA.read_bytes()).hexdigest()
    assert found == SHA256, "evals/data/starter.jsonl is frozen: published figures refer to it as it was"


def test_sizes_and_ids() -> None:
    assert Counter(row["kind"] for row in ROWS) == SIZES
    assert len({row["id"] for row in ROWS}) == len({row["question"] for row in ROWS}) == 90
    assert all(row["answer"] and all(isinstance(a, str) and a for a in row["answer"]) for row in ROWS)


def test_split_is_the_seeded_shuffle_of_each_kind() -> None:
    rng = random.Random(SEED)
    for kind, size in SIZES.items():
        ids = [row["id"] for row in ROWS if row["kind"] == kind]
        rng.shuffle(ids)
        held_out = set(ids[: size // 3])
        for row in ROWS:
            if row["kind"] == kind:
                assert row["split"] == ("held_out" if row["id"] in held_out else "tune")
    assert Counter(row["split"] for row in ROWS) == {"tune": 60, "held_out": 30}


def test_every_question_is_verified_somehow() -> None:
    assert all("check" in row or "evidence" in row for row in ROWS)


@pytest.mark.parametrize("row", COMPUTED, ids=lambda row: row["id"])
def test_computed_answer(row: dict[str, Any]) -> None:
    value = compute(row["check"])
    assert re.fullmatch(rf"{re.escape(value)}( ({UNIT}))?", row["answer"][0])


@pytest.mark.parametrize("row", [row for row in LOOKED_UP if "check" not in row], ids=lambda row: row["id"])
def test_evidence_holds_the_answer(row: dict[str, Any]) -> None:
    quotes = " ".join(item["quote"] for item in row["evidence"])
    figure = re.sub(rf" ({UNIT})$", "", row["answer"][0])
    forms = [
        figure,
        f"{int(figure):,}" if figure.isdigit() else figure,
        "May 24, 1883" if row["id"] == "facts-01" else figure,
    ]
    assert any(form in quotes for form in forms)
