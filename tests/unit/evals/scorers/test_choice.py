"""One option in all its names; two options never taken for one."""

import pytest

from evals.scorers.choice import choice

LETTERED = ["A. Psychotherapy", "B. Penicillin G", "C. 0.77c", "D. E. coli infection", "E. 4 micrometres"]
NUMBERED = ["1. red", "2. green", "3. blue"]
BARE = ["12 cm", "12 m", "1200"]


@pytest.mark.parametrize(
    "answer",
    [
        "B", "(B)", "B.", "B)", "b", "B) Penicillin G", "B. penicillin G", "(B) Penicillin G", "B - Penicillin G",
        "Penicillin G", "penicillin g.", "The answer is B", "The answer is (B).", "**B**", "\\boxed{B}",
        "\\boxed{\\text{B}}", "<answer>B. Penicillin G</answer>", "Option B", "The correct option is (B)",
        "I choose option B after all of this", "B. Penicillin",
    ],
)  # fmt: skip
def test_right(answer: str) -> None:
    assert choice(answer, ["B"], LETTERED).value == 1
    assert choice(answer, ["Penicillin G"], LETTERED).value == 1
    assert choice(answer, ["B. Penicillin G"], LETTERED).value == 1


@pytest.mark.parametrize(
    "answer",
    ["A", "(C)", "Psychotherapy", "A) Penicillin G", "B) Psychotherapy", "B or C", "(B) or (C)", "2", "", "F",
     "The answer is B. The answer is C."],
)  # fmt: skip
def test_wrong(answer: str) -> None:
    assert choice(answer, ["B"], LETTERED).value == 0


@pytest.mark.parametrize(
    "answer", ["It is not option B in this case", "E. faecalis sepsis, I think", "some kind of medicine"]
)
def test_ungraded(answer: str) -> None:
    assert choice(answer, ["B"], LETTERED).value is None


def test_a_text_that_looks_like_a_label() -> None:
    assert choice("E. coli infection", ["D"], LETTERED).value == 1
    assert choice("E. coli infection", ["E"], LETTERED).value == 0
    assert choice("E", ["E"], LETTERED).value == 1


@pytest.mark.parametrize("answer", ["2", "2.", "(2)", "green", "2. green", "option 2"])
def test_numbered(answer: str) -> None:
    assert choice(answer, ["green"], NUMBERED).value == 1
    assert choice(answer, ["3"], NUMBERED).value == 0


@pytest.mark.parametrize("answer", ["12 cm", r"12\text{ cm}", "A", "(A) 12 cm", "12 centimetres"])
def test_options_without_labels(answer: str) -> None:
    assert choice(answer, ["12 cm"], BARE).value == 1
    assert choice(answer, ["12 m"], BARE).value == 0


def test_an_option_may_be_left_unclear() -> None:
    """12 without its unit fits two options."""
    assert choice("12", ["12 cm"], BARE).value == 0


def test_explains_itself() -> None:
    assert choice("B", ["B"], LETTERED).explanation == "Names option B, an accepted one."
    assert choice("C", ["B"], LETTERED).explanation == "Names option C, not an accepted one."


@pytest.mark.parametrize("accepted", [["F"], ["12"], []])
def test_refuses_a_faulty_question(accepted: list[str]) -> None:
    with pytest.raises(ValueError, match="accepted answer"):
        choice("12 cm", accepted, BARE)
