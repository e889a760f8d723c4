import pytest

from agentflow.console.calls_table import count, duration, money


@pytest.mark.parametrize(
    ("value", "whole", "told"),
    [
        (None, False, "–"),  # noqa: RUF001
        (0.0, True, "$0.00"),
        (1234.5, True, "$1,234.50"),
        (0.0123, True, "$0.0123"),
        (0.00001, False, "≥ $1.0e-05"),
        (2.0, False, "≥ $2.00"),
    ],
)
def test_money(value: float | None, whole: bool, told: str):
    assert money(value, whole=whole) == told


def test_numbers_fit_their_columns():
    assert [count(value) for value in (0, 999_999, 1_000_000, 123_456_789)] == ["0", "999,999", "1.00 M", "123.46 M"]
    assert [duration(value) for value in (None, 0.5, 12.34, 1234.0, 2e6)] == ["–", "0.50", "12.3", "1,234", "2.00 M"]  # noqa: RUF001
