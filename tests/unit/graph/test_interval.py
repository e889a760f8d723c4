"""Intervals against published values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.interval import wilson


@pytest.mark.parametrize(
    ("right", "graded", "low", "high"),
    [
        # Newcombe 1998 (Statistics in Medicine 17:857), table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0000),
    ],
)
def test_wilson(right: int, graded: int, low: float, high: float) -> None:
    assert wilson(right, graded) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share(counts: tuple[int, int]) -> None:
    right, graded = counts
    low, high = wilson(right, graded)
    assert 0 <= low <= (right / graded if graded else 0.5) <= high <= 1


def test_wilson_refuses_impossible_counts() -> None:
    with pytest.raises(ValueError):
        wilson(3, 2)
