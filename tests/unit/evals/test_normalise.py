"""Typography goes, value stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.normalise import LIMIT, key, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2**10", "2**10"),
        ("2**10 and 3**4", "2**10 and 3**4"),
        ("**42** is *it*", "42 is it"),
        ("__init__.py and snake_case", "__init__.py and snake_case"),
        ("$5 and $6", "$5 and $6"),
        ("$x$ and $y$", "x and y"),
        ("10\u00b2", "10^(2)"),
        ("3\u00bd", "3 1/2"),
        ("\uff11\u2212\uff12", "1-2"),
        (r"\frac{1}{2}", "(1)/(2)"),
        (r"3\tfrac12", "3 (1)/(2)"),
        (r"\sqrt{\frac{1}{4}}", "sqrt((1)/(4))"),
        (r"12\,\text{cm}", "12 cm"),
        (r"\left(1,2\right)", "(1,2)"),
        (r"50\%", "50%"),
        ("a\n\n b\t c", "a b c"),
        ("caf\u200b\u00e9", "caf\u00e9"),
    ],
)
def test_plain(text: str, expected: str) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Pequod.", "pequod"),
        ("Dalí", "dali"),
        ("U.S.", "US"),
        ("red, white, and blue", "red, white & blue"),
        ("'e'", "E"),
        ("a", "A"),
    ],
)
def test_same_key(one: str, other: str) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("1.5", "15"), ("1,5", "15"), ("-5", "5"), (".5", "5"), ("5!", "5"), ("a,b", "ab"), ("6'2", "62"), ("a-b", "a b")],
)
def test_other_key(one: str, other: str) -> None:
    assert key(one) != key(other)


def test_looks_at_the_end_of_a_long_text() -> None:
    assert plain("x" * 50_000 + " 42").endswith("x 42")
    assert len(plain("x" * 50_000)) == LIMIT


@given(st.text(max_size=100))
def test_key_is_settled_after_plain(text: str) -> None:
    assert key(plain(text)) == key(plain(plain(text)))
