"""Expressions have their exact value or none, at once."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.arithmetic import evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("016", 16),
        ("2^10", 1024),
        ("2**10", 1024),
        ("10^(15)", 10**15),
        ("2^3^2", 512),
        ("-2^2", -4),
        ("2^-3", Fraction(1, 8)),
        ("(1+1+1)*8", 24),
        ("8 - 3 - 2", 3),
        ("24 / 4 / 2", 3),
        ("0.1 + 0.2", Fraction(3, 10)),
        (".5*4", 2),
        ("sqrt(16)", 4),
        ("sqrt(9/4)", Fraction(3, 2)),
        ("- (3 + 4)", -7),
    ],
)
def test_value(text: str, value: Fraction) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "()", "(1", "1)", "1 2", "2 +", "* 2", "1/0", "0^-1", "sqrt(2)", "sqrt(-1)", "2^0.5", "x", "5x",
        "1.2.3",
        "9**9**9", "9**9**9**9", "10^1000000000", "2^(2^40)", "1/(2^40)^(2^40)", "__import__('os')", "1" * 301,
        "(" * 150 + "1" + ")" * 149, "1e5", "1,000", "10 % 3", "5!",
    ],
)  # fmt: skip
def test_no_value(text: str) -> None:
    assert evaluate(text) is None


def test_depth_is_bounded_and_counted_along_the_stack_only() -> None:
    assert evaluate("(" * 25 + "1" + ")" * 25) == 1
    assert evaluate("+".join(["(-1)"] * 50)) == -50
    assert evaluate("(" * 40 + "1" + ")" * 40) is None
    assert evaluate("-" * 298 + "1") is None


@given(st.text("0123456789.+-*/^()sqrt ", max_size=60))
def test_never_raises(text: str) -> None:
    evaluate(text)


@given(st.integers(-999, 999), st.integers(-999, 999), st.sampled_from("+-*"))
def test_agrees_with_python(a: int, b: int, operator: str) -> None:
    assert evaluate(f"({a}) {operator} ({b})") == {"+": a + b, "-": a - b, "*": a * b}[operator]
