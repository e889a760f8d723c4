"""When a request is made again."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from graph.tools.retries import ATTEMPTS, RetryableStatusError, raise_if_retryable, retrying


async def attempts(*failures: BaseException, seconds: float = 10) -> int:
    """How many attempts a call takes that fails in these ways; its last failure is raised."""
    remaining = list(failures)
    count = 0
    async for attempt in retrying(seconds):
        with attempt:
            count += 1
            if remaining:
                raise remaining.pop(0)
    return count


def answer(status: int, retry_after: str = "0") -> RetryableStatusError:
    return RetryableStatusError(httpx.Response(status, headers={"Retry-After": retry_after}))


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 599])
async def test_answers_that_another_try_may_improve(status: int) -> None:
    with pytest.raises(RetryableStatusError):
        raise_if_retryable(httpx.Response(status))
    assert await attempts(answer(status), answer(status)) == 3


@pytest.mark.parametrize("status", [200, 301, 400, 401, 403, 404, 410, 422])
def test_other_answers_are_final(status: int) -> None:
    raise_if_retryable(httpx.Response(status))


async def test_attempts_are_counted() -> None:
    with pytest.raises(RetryableStatusError):
        await attempts(*[answer(503)] * ATTEMPTS)
    assert await attempts(*[answer(503)] * (ATTEMPTS - 1)) == ATTEMPTS


async def test_lost_connections_are_made_again_and_other_failures_are_not() -> None:
    assert await attempts(httpx.ConnectError("refused"), httpx.ReadTimeout("slow")) == 3
    with pytest.raises(httpx.UnsupportedProtocol):
        await attempts(httpx.UnsupportedProtocol("ftp"))
    with pytest.raises(ValueError, match="mine"):
        await attempts(ValueError("mine"))


async def test_wait_longer_than_the_time_left_is_not_begun() -> None:
    with pytest.raises(RetryableStatusError):
        await attempts(answer(503, "60"), seconds=5)


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [
        ("7", 7, 7),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("9" * 400, 999_999_999, 999_999_999),
    ],
)
def test_both_forms_of_retry_after(header: str, low: float, high: float) -> None:
    asked = answer(503, header).retry_after
    assert asked is not None
    assert low <= asked <= high


def test_retry_after_a_date_to_come() -> None:
    asked = answer(503, format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)).retry_after
    assert asked is not None
    assert 3500 <= asked <= 3600


@pytest.mark.parametrize("header", ["", "soon", "-1", "1.5", "\u00b2"])
def test_retry_after_that_makes_no_sense_is_ignored(header: str) -> None:
    response = httpx.Response(503, headers=[(b"Retry-After", header.encode("latin-1"))])
    assert RetryableStatusError(response).retry_after is None
