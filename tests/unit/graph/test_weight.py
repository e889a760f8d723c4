"""How much of a context a text takes."""

import re

from hypothesis import given
from hypothesis import strategies as st

from graph.weight import weight

PIECES = st.sampled_from(
    ["word", "a1", "12", "1", "_", "a" * 30, "0" * 30, "f00" * 9, "{", '"', ". ", " ", "\n", "\t", "-"]
)


def by_definition(text: str) -> int:
    """The weight of an ASCII text, as the module's first paragraph defines it, in tenths to avoid fractions."""
    tenths = 10 * len(text) + 15 * sum(c.isdigit() or (c.isprintable() and not c.isalnum() and c != " ") for c in text)
    for run in re.findall(r"[A-Za-z0-9_]+", text):
        digits = sum(c.isdigit() for c in run)
        if len(run) >= 25 or (len(run) >= 3 and 0 < digits < len(run)):
            tenths += 10 * (len(run) - digits)
    return -(-tenths // 10)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_counting_characters_weighs_as_the_definition_does(text):
    assert weight(text) == by_definition(text)


@given(st.text(max_size=200))
def test_nothing_weighs_less_than_its_length(text):
    assert weight(text) >= len(text)


@given(st.lists(st.text(max_size=40), max_size=6))
def test_lines_weigh_as_much_together_as_apart(lines):
    """On which the memory's budget relies."""
    whole = weight("\n\n".join(lines))
    apart = sum(map(weight, lines)) + 2 * max(0, len(lines) - 1)
    assert apart - len(lines) <= whole <= apart
