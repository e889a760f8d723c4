"""Sends trajectories to a collector, several in one request."""

import os
from typing import TYPE_CHECKING, Final

from graph.errors import ConfigError
from graph.trace import Trajectory
from graph.traces.telemetry.address import traces_address

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_REQUEST_CHARS: Final = 4_000_000
"""Of the spans' texts in one request; collectors take 20 MB where they were not told otherwise."""


class Sender:
    """Makes trajectories spans and sends them; of use to one thread at a time."""

    def __init__(self, address: str) -> None:
        """Load OpenTelemetry.

        Raises:
            ConfigError: it is not installed, or a variable of its own is set to what it cannot use.
        """
        try:
            from graph.traces.telemetry.collector import Collector
            from graph.traces.telemetry.spans import Projector

            self._projector = Projector()
            self._collector = Collector(address)
        except ImportError as error:
            raise ConfigError("Sending traces needs OpenTelemetry: pip install 'agentflow[otel]'.") from error
        except ValueError as error:
            raise ConfigError(f"OpenTelemetry cannot use a variable of its own: {error}.") from error
        self._waiting: list[ReadableSpan] = []
        self._waiting_chars = self._waiting_trajectories = 0
        self.sent = 0
        """Trajectories that the collector has taken."""
        self.spans = 0
        """Their spans."""

    def add(self, trajectory: Trajectory) -> None:
        """Take a trajectory, and send what was taken once it makes a request.

        Raises:
            CollectorError: it is not there, or did not take the request.
        """
        spans = self._projector.spans_of(trajectory)
        self._waiting += spans
        self._waiting_trajectories += 1
        self._waiting_chars += sum(
            len(value) for span in spans for value in (span.attributes or {}).values() if isinstance(value, str)
        )
        if self._waiting_chars >= _REQUEST_CHARS:
            self.flush()

    def flush(self) -> None:
        """Send what was taken and not yet sent.

        Raises:
            CollectorError: it is not there, or did not take the request.
        """
        spans, trajectories = self._waiting, self._waiting_trajectories
        self._waiting, self._waiting_chars, self._waiting_trajectories = [], 0, 0
        if spans:
            self._collector.send(spans)
            self.sent += trajectories
            self.spans += len(spans)

    def close(self) -> None:
        """Give up what is being sent, and close the connection."""
        self._collector.close()


def is_disabled() -> bool:
    """Whether the environment says that no program shall send anything."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def address_of(given: str | None, configured: str | None) -> str:
    """Return the address to send to: of the option, else of the configuration, else of OpenTelemetry's own variables.

    Raises:
        ConfigError: none is given, or the one that is cannot be used.
    """
    for name, value in (("--endpoint", given), ("traces.otlp_endpoint", configured)):
        if value is not None:
            return _checked(name, value)
    if whole := os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        _checked("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", whole)
        return whole  # by its definition with its path
    if base := os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return _checked("OTEL_EXPORTER_OTLP_ENDPOINT", base)
    raise ConfigError("No collector is named: add --endpoint http://127.0.0.1:4318, or set traces.otlp_endpoint.")


def _checked(name: str, value: str) -> str:
    try:
        return traces_address(value)
    except ValueError as error:
        raise ConfigError(f"{name} cannot be used: {error}.") from None
