"""Trajectories as JSON lines: one a line, streamed.

A new file appears whole or not at all. Lines that are appended are each written in one piece, by one process at a time;
what a crash left of a last line is closed off, and reported when it is read.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from graph.errors import ConfigError
from graph.trace import Trajectory
from graph.traces.reading import Damage, DamagedTraceError, OnDamage, parse_trajectory

_BOM = b"\xef\xbb\xbf"


def read_jsonl(path: Path, on_damage: OnDamage) -> Iterator[Trajectory]:
    """Yield the trajectories of a file, in order.

    Args:
        path: the file.
        on_damage: told of each line that is skipped.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield from _lines(file, path, on_damage)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): give a file of JSON lines.") from error


def _lines(file: BinaryIO, path: Path, on_damage: OnDamage) -> Iterator[Trajectory]:
    for number, line in enumerate(file, 1):
        data = line.removeprefix(_BOM) if number == 1 else line
        if not data.strip():
            continue
        try:
            found = parse_trajectory(data, f"{path}, line {number}")
        except DamagedTraceError as error:
            torn = not line.endswith(b"\n")
            why = "the file ends in the middle of this line; it is left out." if torn else error.damage.why
            on_damage(Damage(error.damage.where, "torn" if torn else error.damage.kind, why))
            continue
        yield found


class JsonlWriter:
    """Writes a new file under another name, and gives it its own when the block ends well."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        """Open the file.

        Raises:
            ConfigError: it cannot be written.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._part.open("wb")
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written ({error.strerror}): choose another file.") from error
        return self

    def write(self, line: str) -> None:
        """Write one trajectory, as JSON without line ends."""
        assert self._file is not None
        self._file.write(line.encode() + b"\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the file in its place, or leave what was there."""
        assert self._file is not None
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            if error is None:
                self._part.replace(self._path)
        finally:
            self._file.close()
            self._part.unlink(missing_ok=True)


class JsonlAppender:
    """Adds lines to a file that others may add to as well."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        """Open the file, creating it where it is missing.

        Raises:
            ConfigError: it cannot be written.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a+b", buffering=0)
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written ({error.strerror}): choose another file.") from error
        return self

    def write(self, line: str) -> None:
        """Add one trajectory, as JSON without line ends: wholly, or not at all."""
        assert self._file is not None
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            end = self._file.seek(0, os.SEEK_END)
            data = (b"\n" if self._is_torn(end) else b"") + line.encode() + b"\n"
            try:
                _write_whole(self._file, data)
            except OSError:
                self._file.truncate(end)
                raise
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _is_torn(self, end: int) -> bool:
        """Whether the last line lacks its end: the next one must not be glued to it."""
        assert self._file is not None
        if end == 0:
            return False
        self._file.seek(end - 1)
        return self._file.read(1) != b"\n"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Bring what was written to the disk."""
        assert self._file is not None
        os.fsync(self._file.fileno())
        self._file.close()


def _write_whole(file: BinaryIO, data: bytes) -> None:
    """Write everything: one call may write less than it was given."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
