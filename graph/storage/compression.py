"""Compression of what is stored: prompts and tool results repeat themselves."""

import zlib

_LARGEST = 1 << 30
"""Bytes that one value may take when it is read: a row made by somebody else must not fill the memory."""


def compress(data: bytes, *, level: int) -> bytes:
    """Compress a value."""
    return zlib.compress(data, level)


def decompress(data: bytes) -> bytes:
    """Return what was compressed.

    Raises:
        ValueError: the data is damaged, cut short, or larger than any value of ours.
    """
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, _LARGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not stream.eof:
        raise ValueError("compressed data that is cut short or too large")
    return found
