"""Records for the launcher: a line each, a kind and its content in base64, so that a torn line spoils no other."""

import binascii
import os

READY = b"ready"
"""The sandbox stands and waits for the code."""
FAILED = b"failed"
"""The sandbox could not be built: one sentence on why."""
VALUE = b"value"
"""The representation of the last expression."""
FIGURE = b"figure"
"""One PNG image."""
LIMIT = b"limit"
"""The limit that ended the run: `memory` or `processes`."""


def report(descriptor: int, kind: bytes, content: bytes = b"") -> None:
    """Write one record; a launcher that is gone is no error, as the run then ends anyway."""
    line = b"\n" + kind + b" " + binascii.b2a_base64(content, newline=False) + b"\n"
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    except BrokenPipeError:
        return
