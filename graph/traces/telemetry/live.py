"""Sends each run's trace when the run has ended, in the background: whatever the collector does, runs go on.

The SDK's own background processor keeps single spans and drops some of them when too many wait, which leaves torn
traces, and its end cannot be bounded; here whole trajectories wait, and are made spans away from the event loop.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from graph.errors import CollectorError
from graph.trace import Trajectory
from graph.traces.telemetry.sending import Sender, address_of, is_disabled

if TYPE_CHECKING:
    from graph.config import FlowConfig

OnNotice = Callable[[str], None]
_MOST: Final = 64
"""Trajectories that wait; further ones are dropped."""
_CLOSE_SECONDS: Final = 5.0
_LATER: Final = "runs go on, and `agentflow traces send` sends what is missing"


@asynccontextmanager
async def sending_live(
    config: "FlowConfig", *, on_notice: OnNotice | None = None
) -> AsyncIterator[Callable[[Trajectory], None] | None]:
    """Return what takes each trajectory when its run has ended; None where nothing is to be sent.

    What was taken is sent before the block ends, unless that takes more than a few seconds.

    Args:
        config: the settings in force.
        on_notice: called from another thread, at most once, with a sentence on what could not be sent.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    if config.traces.otlp_endpoint is None or is_disabled():
        yield None
        return
    from graph.traces.redaction import Redactor

    redactor = Redactor.of(config, personal=False, own={})
    sender = Sender(address_of(None, config.traces.otlp_endpoint))
    live = LiveSender(sender, redact=redactor.redact, on_notice=on_notice)
    try:
        yield live.take
    finally:
        await asyncio.to_thread(live.close, _CLOSE_SECONDS)


class LiveSender:
    """A thread that sends what it is given."""

    def __init__(
        self,
        sender: Sender,
        *,
        redact: Callable[[Trajectory], Trajectory],
        on_notice: OnNotice | None = None,
        most: int = _MOST,
    ) -> None:
        """`most` is how many trajectories may wait."""
        self._sender = sender
        self._redact = redact
        self._on_notice = on_notice
        self._most = most
        self._waiting: SimpleQueue[Trajectory | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._told = False
        # It ends with the process: nobody waits for a collector that hangs.
        self._thread = threading.Thread(target=self._work, name="agentflow-telemetry", daemon=True)
        self._thread.start()

    def take(self, trajectory: Trajectory) -> None:
        """Take a trajectory to be sent, without waiting for anything."""
        if self._waiting.qsize() < self._most:
            self._waiting.put(trajectory)
        else:
            self._tell(f"Some traces are not sent, as the collector is slower than the runs: {_LATER}.")

    def close(self, seconds: float) -> None:
        """Wait until everything is sent, but no longer than so many seconds."""
        self._waiting.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._tell(f"The last traces are not sent, as the collector takes too long: {_LATER}.")
        self._sender.close()

    def _work(self) -> None:
        while (trajectory := self._waiting.get()) is not None:
            try:
                self._sender.add(self._redact(trajectory))
                self._sender.flush()
            except CollectorError as error:
                why = str(error)
                self._tell(f"Traces are not sent ({_LATER}): {why[0].lower()}{why[1:]}")
            except Exception as error:  # noqa: BLE001 - what is wrong with the telemetry of a run is no part of the run
                self._tell(f"A trace is not sent, as it could not be made spans ({type(error).__name__}).")

    def _tell(self, sentence: str) -> None:
        with self._lock:
            if self._told or self._on_notice is None:
                return
            self._told = True
        self._on_notice(sentence)
