"""One policy for requests that may succeed when they are made again.

Timeouts, connection errors and the answers 408, 409, 429 and 5xx are retried with exponential backoff and jitter, or
after the time that the server asks for in Retry-After; other answers never. No wait goes beyond the time that is left.
"""

import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
import tenacity

ATTEMPTS = 4

_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=5)


class RetryableStatusError(Exception):
    """An answer that asks for another try."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"{response.status_code} {response.reason_phrase}".strip())
        self.status = response.status_code
        self.retry_after = _retry_after(response.headers.get("Retry-After", ""))


def raise_if_retryable(response: httpx.Response) -> None:
    """Raise RetryableStatusError for an answer that another try may improve."""
    if response.status_code in {408, 409, 429} or response.status_code >= 500:
        raise RetryableStatusError(response)


def retrying(seconds: float) -> tenacity.AsyncRetrying:
    """An iterator of attempts that stops after ATTEMPTS, or before a wait that would end after `seconds`.

    The last attempt's own exception is raised: RetryableStatusError or httpx.TransportError.
    """
    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(_is_retryable),
        wait=_wait,
        stop=tenacity.stop_after_attempt(ATTEMPTS) | tenacity.stop_before_delay(seconds),
        reraise=True,
    )


def _is_retryable(error: BaseException) -> bool:
    if isinstance(error, httpx.TransportError):
        return not (isinstance(error, httpx.UnsupportedProtocol) or certificate_error(error))
    return isinstance(error, RetryableStatusError)


def certificate_error(error: BaseException) -> ssl.SSLError | None:
    """The TLS failure behind a connection error, if that is what it was."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, RetryableStatusError) else None
    return _backoff(state) if asked is None else asked


def _retry_after(value: str) -> float | None:
    """Seconds to wait, from either form of the header; None where it is absent or makes no sense."""
    if value.strip().isdecimal():
        return float(value[:9])
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
