"""A score is between 0 and 1, or absent."""

import pytest
from pydantic import ValidationError

from evals.score import Score


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_refuses_impossible_values(value: float) -> None:
    with pytest.raises(ValidationError):
        Score(value=value, answer="", explanation="")


@pytest.mark.parametrize(("value", "right"), [(1, True), (0.99, False), (0, False), (None, None)])
def test_right(value: float | None, right: bool | None) -> None:
    assert Score(value=value, answer="", explanation="").right is right


def test_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Score(value=1, answer="", explanation="").value = 0
