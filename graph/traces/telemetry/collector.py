"""A collector that takes OTLP over HTTP, and what it says to what it is sent."""

import logging
from collections.abc import Sequence
from typing import Any, Final

import requests
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from graph.errors import CollectorError

_HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
_ADVICE: Final = {
    401: f": give its key in {_HEADERS}",
    403: f": give a key that may write in {_HEADERS}",
    404: ": give the address at which it takes OTLP over HTTP",
    405: ": give the address at which it takes OTLP over HTTP",
    413: ": raise its limit for the size of a request",
}

# Where no handler is set up, Python would print what the exporter logs on the terminal: we say it ourselves.
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())


class Collector:
    """Sends spans to one address, from one thread; certificates, headers and timeout are the standard variables'."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._session = _Session()
        self._exporter = OTLPSpanExporter(address, session=self._session)

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Send spans in one request, again where the collector is busy.

        Raises:
            CollectorError: it is not there, or did not take all of them.
        """
        self._session.problem = None
        try:
            result = self._exporter.export(spans)
        except _NotSentError:  # some versions of the exporter let it through
            result = SpanExportResult.FAILURE
        problem = self._session.problem
        if problem is None and result is not SpanExportResult.SUCCESS:
            problem = "was not asked, as the spans could not be encoded, or are too large for one request"
        if problem is not None:
            raise CollectorError(f"The collector at {self.address} {problem}.")

    def close(self) -> None:
        """Give up what is being sent again, and close the connection."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class _NotSentError(Exception):
    """Of none of the types after which the exporter would wait and try again: the user hears of it at once."""


class _Session(requests.Session):
    """Remembers what went wrong with the last request: the exporter only says that something did."""

    def __init__(self) -> None:
        super().__init__()
        self.problem: str | None = None
        """Goes on from the collector's address; None: all is well."""

    def request(self, *args: Any, **options: Any) -> requests.Response:
        """Make a request."""
        try:
            response = self._request_again(*args, **options)
        except (requests.RequestException, ValueError) as error:
            self.problem = _why_not_sent(error)
            raise _NotSentError(self.problem) from None  # the error may repeat a header
        self.problem = _why_not_taken(response)
        return response

    def _request_again(self, *args: Any, **options: Any) -> requests.Response:
        try:
            return super().request(*args, **options)
        except requests.Timeout:
            raise
        except requests.ConnectionError:
            # The other side may have closed a connection that was not used for long.
            return super().request(*args, **options)


def _why_not_sent(error: Exception) -> str:
    match error:
        case requests.exceptions.SSLError():
            return "has a certificate that is not accepted: name its authority's in OTEL_EXPORTER_OTLP_CERTIFICATE"
        case requests.Timeout():
            return "did not answer in time"
        case requests.exceptions.ProxyError():
            return "is behind a proxy that cannot be reached: mend HTTP_PROXY or HTTPS_PROXY"
        case requests.exceptions.InvalidHeader() | UnicodeError():
            return f"was not asked, as {_HEADERS} holds what no header may hold"
        case requests.ConnectionError():
            return "cannot be reached: start it, or give the address at which it takes OTLP over HTTP (not gRPC)"
        case _:
            return f"cannot be asked ({type(error).__name__})"


def _why_not_taken(response: requests.Response) -> str | None:
    if not 200 <= response.status_code < 300:
        status = f"{response.status_code} {response.reason or ''}".rstrip()
        return f"refused the spans ({status}){_ADVICE.get(response.status_code, '')}"
    answer = ExportTraceServiceResponse()
    try:
        answer.ParseFromString(response.content)
    except DecodeError:
        return None  # it has taken them, and says so in another format
    partial = answer.partial_success
    if not partial.rejected_spans:
        return None
    return f"rejected {partial.rejected_spans} spans ({partial.error_message or 'it does not say why'})"
