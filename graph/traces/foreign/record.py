"""What every reader of a foreign format needs: identities, skipped records, and what was left out of the others."""

import json
import uuid
from collections import Counter
from typing import Any

from graph.errors import TraceError
from graph.plain import plain_text
from graph.traces.foreign.values import text_of

_NAMESPACE = uuid.UUID("8b3d5c52-6f0e-4a57-9d0c-6f6f1f6f4a11")
"""Ours: an import's ids are the UUIDs of version 5 within it."""
_ORIGIN_CHARS = 80

LeftOut = Counter[str]
"""How often what was left out of records that were imported, in words."""


class UnreadableRecordError(TraceError):
    """A record that holds no trajectory. The message goes on from `file, line 3: it is skipped, as …`."""


def mint(kind: str, content: Any) -> str:
    """Return the id of what `content` describes, the same whenever it is imported.

    Args:
        kind: what it is the id of, so that equal contents of two kinds differ.
        content: plain JSON.

    Raises:
        UnreadableRecordError: it is nested too deeply.
    """
    try:
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    except (RecursionError, ValueError) as error:
        raise UnreadableRecordError("it is nested too deeply.") from error
    return str(uuid.uuid5(_NAMESPACE, f"{kind}:{canonical}"))


def origin_tags(identifier: Any) -> tuple[str, ...]:
    """Return the tag that names a record as its own program does; none where it gives no name."""
    text = text_of(identifier)
    if text is None:
        return ()
    printable = "".join(character if character.isprintable() else " " for character in plain_text(text))
    return (f"origin:{' '.join(printable.split())[:_ORIGIN_CHARS]}",)
