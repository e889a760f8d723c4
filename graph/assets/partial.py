"""A file on its way: it grows from the front, is verified as it grows, and moves into place whole or not at all."""

import hashlib
import os
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self

from graph.assets.asset import Asset
from graph.errors import SetupError

Progress = Callable[[str, int, int], None]
"""Called with an asset's name, the bytes that are there and the bytes of the whole."""

_CHUNK = 1 << 20


class SourceError(SetupError):
    """One source cannot supply the rest of an asset; another may. The message is a clause, not yet a sentence."""


class WrongBytesError(SourceError):
    """A source supplied bytes that do not hash to what is pinned."""


class PartialFile:
    """What has been fetched of an asset, at `path`.

    `done` counts verified parts and the unverified start of the next. A part that turns out wrong is cut off again, so
    whatever an earlier run, another source or a crash left here can always be built upon.
    """

    def __init__(self, asset: Asset, path: Path, progress: Progress) -> None:
        self.asset = asset
        self.path = path
        self.done = 0
        self._progress = progress
        self._ends = list(accumulate(part.size for part in asset.parts))
        self._hash = hashlib.sha256()

    def __enter__(self) -> Self:
        """Open the file and verify what an earlier run left in it."""
        # Unbuffered: a full disk shows at the write that meets it, not at some later flush.
        self._file = open(self.path, "ab+", buffering=0)
        self._file.seek(0)
        try:
            while data := self._file.read(_CHUNK):
                self._count(data)
        except WrongBytesError:
            pass  # cut off: everything before it stands
        self._file.truncate(self.done)
        self._file.seek(self.done)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def complete(self) -> bool:
        """Whether every part is there and verified."""
        return self.done == self.asset.size

    def next_part(self) -> tuple[int, int]:
        """The index of the part that comes next, and how many of its bytes are there already."""
        index = next(i for i, end in enumerate(self._ends) if end > self.done)
        return index, self.done - self._start(index)

    def write(self, data: bytes) -> None:
        """Append. Raises WrongBytesError, and OSError where the disk does not take it."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        try:
            self._count(data)
        except WrongBytesError:
            self._file.truncate(self.done)
            self._file.seek(self.done)
            raise

    def restart(self) -> None:
        """Forget everything: the source can only begin at the beginning."""
        self._file.truncate(0)
        self._file.seek(0)
        self.done = 0
        self._hash = hashlib.sha256()

    def move_to(self, place: Path) -> None:
        """Put the complete file into its place. Raises WrongBytesError when the whole is not what is pinned."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.seek(0)
        if hashlib.file_digest(self._file, "sha256").hexdigest() != self.asset.sha256:
            self.restart()
            raise WrongBytesError("the whole file does not have the pinned sha256")
        os.replace(self.path, place)
        directory = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _start(self, index: int) -> int:
        return self._ends[index - 1] if index else 0

    def _count(self, data: bytes) -> None:
        """Take `data` into account and verify each part that it completes. A wrong part is taken out of `done`."""
        view = memoryview(data)
        while view:
            if self.complete:
                raise WrongBytesError("there are more bytes than there should be")
            index, have = self.next_part()
            piece = view[: self.asset.parts[index].size - have]
            self._hash.update(piece)
            self.done += len(piece)
            view = view[len(piece) :]
            if self.done == self._ends[index]:
                digest, self._hash = self._hash.hexdigest(), hashlib.sha256()
                if digest != self.asset.parts[index].sha256:
                    self.done = self._start(index)
                    raise WrongBytesError(f"part {index + 1} of {len(self._ends)} does not have the pinned sha256")
        self._progress(self.asset.name, self.done, self.asset.size)
