"""Intervals and p-values against published values and against brute force."""

from itertools import product

import pytest

from evals.compare import accuracy, compare, mcnemar
from evals.score import Score
from graph.errors import ConfigError

RIGHT = Score(value=1, answer="", explanation="")
PART = Score(value=0.5, answer="", explanation="")
WRONG = Score(value=0, answer="", explanation="")
UNGRADED = Score(value=None, answer="", explanation="")


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(0, 0, 1.0), (5, 5, 1.0), (6, 0, 0.03125), (0, 6, 0.03125), (10, 2, 0.03857421875), (12, 4, 0.076812744140625)],
)
def test_mcnemar(first: int, second: int, p: float) -> None:
    assert mcnemar(first, second) == p


@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize("second", range(6))
def test_mcnemar_by_enumeration(first: int, second: int) -> None:
    n, extreme = first + second, abs(first - second)
    outcomes = [abs(sum(signs)) for signs in product((-1, 1), repeat=n)]
    assert mcnemar(first, second) == sum(out >= extreme for out in outcomes) / 2**n


def test_mcnemar_of_many_questions_and_of_nonsense() -> None:
    assert mcnemar(5000, 5000) == 1.0
    assert 0 < mcnemar(0, 900) < 1e-200
    with pytest.raises(ValueError):
        mcnemar(-1, 3)


def test_accuracy_counts_ungraded_apart() -> None:
    found = accuracy([RIGHT, RIGHT, RIGHT, WRONG, PART, UNGRADED])
    assert (found.right, found.graded, found.ungraded, found.value) == (3, 5, 1, 0.6)
    assert found.low < 0.6 < found.high


def test_accuracy_of_nothing() -> None:
    found = accuracy([UNGRADED])
    assert (found.right, found.graded, found.ungraded, found.value, found.low, found.high) == (0, 0, 1, None, 0, 1)


def test_compare() -> None:
    candidate = {"a": RIGHT, "b": RIGHT, "c": RIGHT, "d": WRONG, "e": PART, "f": UNGRADED, "g": RIGHT}
    baseline = {"g": UNGRADED, "f": RIGHT, "e": WRONG, "d": RIGHT, "c": PART, "b": WRONG, "a": RIGHT}
    found = compare(candidate=candidate, baseline=baseline)
    assert (found.both_right, found.only_candidate, found.only_baseline, found.both_wrong) == (1, 2, 1, 1)
    assert found.left_out == 2
    assert found.p_value == 1.0
    assert (found.candidate.right, found.candidate.graded, found.baseline.right, found.baseline.graded) == (4, 6, 3, 6)


def test_compare_refuses_different_questions() -> None:
    with pytest.raises(ConfigError, match="2 are on one side only, such as 'b'"):
        compare(candidate={"a": RIGHT, "b": RIGHT}, baseline={"a": RIGHT, "c": RIGHT})


def test_compare_of_nothing() -> None:
    assert compare(candidate={}, baseline={}).p_value == 1.0
