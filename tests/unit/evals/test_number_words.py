"""Every number below a thousand, as it is said."""

import pytest

from evals.number_words import spelled

ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def say(number: int, joint: str, hyphen: str) -> str:
    if number >= 100:
        return f"{ONES[number // 100]} hundred" + (joint + say(number % 100, joint, hyphen) if number % 100 else "")
    if number < 20:
        return ONES[number]
    return TENS[number // 10] + (hyphen + ONES[number % 10] if number % 10 else "")


@pytest.mark.parametrize(("joint", "hyphen"), [(" and ", "-"), (" ", " ")])
def test_every_number(joint: str, hyphen: str) -> None:
    for number in range(1000):
        text = say(number, joint, hyphen)
        assert spelled(f"{text} times") == (number, len(text))


@pytest.mark.parametrize("text", ["", "tent", "sevenfold", "one-off", "hundred", "and five", "oneself"])
def test_no_number(text: str) -> None:
    assert spelled(text) is None


def test_a_hundred() -> None:
    assert spelled("A hundred and one") == (101, 17)
