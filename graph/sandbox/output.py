"""An output stream of which only the head and the tail are kept, so that an endless one costs no memory."""


class Excerpt:
    """Collects bytes, keeping at most `limit`: the first half of them and the last half."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Bytes seen, kept or not."""

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._half:  # cut rarely: each cut moves what is kept
            del self._tail[: -self._half]

    @property
    def truncated(self) -> bool:
        """Whether bytes were left out."""
        return self.total > 2 * self._half

    def text(self) -> str:
        """Return the stream as text, with a note in place of what was left out."""
        if not self.truncated:
            return _decoded(bytes(self._head + self._tail))
        tail = bytes(self._tail[-self._half :])
        # A character that a cut went through would show as replacement characters that the stream never held.
        head = _decoded(_without_torn_end(bytes(self._head)))
        while tail and tail[0] & 0xC0 == 0x80:
            tail = tail[1:]
        left_out = self.total - len(self._head) - len(tail)
        return f"{head}\n[… {left_out} bytes left out …]\n{_decoded(tail)}"


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")  # databases and terminals cannot take a NUL


def _without_torn_end(data: bytes) -> bytes:
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # the start of the last character
            width = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if width > back else data
    return data
