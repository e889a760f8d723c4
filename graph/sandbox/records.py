"""What a run reports beside its output. It comes from code that nobody trusts: bounded, and never more than data."""

import asyncio
import binascii

from graph.sandbox.child.figures import FIGURE_BYTES, FIGURES, SIGNATURE
from graph.sandbox.child.report import FAILED, FIGURE, LIMIT, READY, VALUE
from graph.sandbox.child.script import VALUE_CHARACTERS
from graph.sandbox.result import Limit

_CHUNK = 1 << 16
_TOTAL_BYTES = (FIGURES * FIGURE_BYTES + 4 * VALUE_CHARACTERS) * 3 // 2
_LIMITS: dict[bytes, Limit] = {b"memory": "memory", b"processes": "processes"}


class Records:
    """Collects the records of one run from its results pipe."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()
        """Set when the sandbox stands, or will not."""
        self.stands = False
        self.failure: str | None = None
        """Why the sandbox could not be built."""
        self.value: str | None = None
        self.value_truncated = False
        self.figures: list[bytes] = []
        self.limit: Limit | None = None

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Read until every holder of the pipe is gone; what is over the limit is read and dropped."""
        pending = bytearray()
        total = 0
        while data := await stream.read(_CHUNK):
            total += len(data)
            if total > _TOTAL_BYTES:
                continue
            pending += data
            if b"\n" in data:
                *lines, rest = bytes(pending).split(b"\n")
                pending = bytearray(rest)
                for line in lines:
                    self._take(line)
        self.answered.set()

    def _take(self, line: bytes) -> None:
        kind, _, encoded = line.partition(b" ")
        try:
            content = binascii.a2b_base64(encoded, strict_mode=True)
        except binascii.Error:
            return
        if not self.stands:
            self.stands = kind == READY
            if kind == FAILED:
                self.failure = content.decode("utf-8", "replace")
            if kind in (READY, FAILED):
                self.answered.set()
        elif kind == VALUE:
            value = content.decode("utf-8", "replace").replace("\0", "\ufffd")
            self.value, self.value_truncated = value[:VALUE_CHARACTERS], len(value) > VALUE_CHARACTERS
        elif kind == FIGURE:
            if len(self.figures) < FIGURES and len(content) <= FIGURE_BYTES and content.startswith(SIGNATURE):
                self.figures.append(content)
        elif kind == LIMIT:
            self.limit = _LIMITS.get(content)
