"""Dates in usual forms, and nothing else."""

from datetime import date

import pytest

from evals.dates import mentioned_dates, read_date, without_dates

DAY = frozenset({date(2023, 11, 19)})


@pytest.mark.parametrize(
    "text",
    [
        "2023-11-19", "2023/11/19", "2023.11.19", "2023-11-19T00:00:00", "2023-11-19 00:00:00+00:00",
        "19 November 2023", "19 Nov 2023", "19-Nov-2023", "19th of November, 2023", "the 19th November 2023",
        "November 19, 2023",
        "Nov. 19 2023", "november 19th, 2023", "2023 November 19", "19/11/2023", "11/19/2023", "19.11.2023",
        "Sunday, 19 November 2023", "Sunday 2023-11-19", "on 19 November 2023.",
    ],
)  # fmt: skip
def test_one_date(text: str) -> None:
    assert read_date(text) == DAY


@pytest.mark.parametrize(
    "text",
    ["", "2023", "November 2023",
     "2023-13-19", "2023-02-30", "31 April 2023", "Monday, 19 November 2023", "19 Novembre 2023",
     "2023-11-19 or 2023-11-20", "2023-11/19", "2023-11-19 12:30", "120 November 2023"],
)  # fmt: skip
def test_no_date(text: str) -> None:
    assert read_date(text) == frozenset()


def test_day_and_month_that_cannot_be_told_apart() -> None:
    assert read_date("04/05/2023") == {date(2023, 4, 5), date(2023, 5, 4)}
    assert read_date("05/05/2023") == {date(2023, 5, 5)}


def test_dates_in_a_sentence() -> None:
    text = "Between 3 March 2021 and November 19, 2023 there are 991 days."
    assert mentioned_dates(text) == {date(2021, 3, 3), date(2023, 11, 19)}
    assert without_dates(text) == "Between that date and that date there are 991 days."
