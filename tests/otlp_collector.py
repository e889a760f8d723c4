"""A collector on loopback that takes OTLP over HTTP as protobuf, and keeps what it was sent."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpCollector:
    """Takes spans at /v1/traces, as often as it is told to.

    - `statuses`: answers with these first, one a request, and keeps nothing of these requests;
    - `key`: asks for this value of the header `x-key`;
    - `rejects`: says of each request that so many of its spans were rejected;
    - `hold`: does not answer before this event is set.
    """

    def __init__(
        self,
        *,
        statuses: tuple[int, ...] = (),
        key: str | None = None,
        rejects: int = 0,
        hold: threading.Event | None = None,
    ) -> None:
        self.statuses = list(statuses)
        self.key, self.rejects, self.hold = key, rejects, hold
        self.spans: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.scopes: list[str] = []
        self.paths: list[str] = []
        self.bodies: list[bytes] = []
        self.compressed = False
        self.lock = threading.Lock()
        self.asked = threading.Event()
        handler = type("Handler", (_Handler,), {"collector": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def keep(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        self.bodies.append(body)
        for resource in request.resource_spans:
            self.resources.append(values(resource.resource.attributes))
            for scope in resource.scope_spans:
                self.scopes.append(scope.scope.name)
                self.spans += scope.spans

    def of_kind(self, kind: str) -> list[Span]:
        return [span for span in self.spans if values(span.attributes)["openinference.span.kind"] == kind]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.hold:
            self.hold.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    collector: OtlpCollector

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        collector = self.collector
        body = self.rfile.read(int(self.headers["Content-Length"]))
        collector.asked.set()
        if collector.hold:
            collector.hold.wait()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
            collector.compressed = True
        with collector.lock:
            collector.paths.append(self.path)
            status = self._status()
            if status == 200:
                collector.keep(body)
        answer = ExportTraceServiceResponse()
        if collector.rejects:
            answer.partial_success.rejected_spans = collector.rejects
            answer.partial_success.error_message = "too old"
        data = answer.SerializeToString() if status == 200 else b"no"
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # a client that was given up on is no error of the server's
            self.close_connection = True

    def _status(self) -> int:
        if self.collector.statuses:
            return self.collector.statuses.pop(0)
        if self.collector.key and self.headers.get("x-key") != self.collector.key:
            return 401
        fits = self.path == "/v1/traces" and self.headers.get("Content-Type") == "application/x-protobuf"
        return 200 if fits else 404


def values(attributes: "Any") -> dict[str, Any]:
    """Attributes as plain values."""
    return {pair.key: _value(pair.value) for pair in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
