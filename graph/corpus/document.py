"""One document of a corpus."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """A titled text that a search can return."""

    id: str
    """Names the document in results; chosen by whoever supplies it."""
    title: str
    """What the document is about, in a few words; matches here weigh more than in the text. May be empty."""
    text: str
    """Plain text."""
    source: str
    """Where it comes from, for the reader: a work's name, an address, or a file's path."""
