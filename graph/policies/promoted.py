"""`promoted.json`: which version chat and evaluations use, and what they used before."""

import os
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from graph.errors import ConfigError, StorageError
from graph.records import Record


class Promotion(Record):
    """One change of what is promoted."""

    policy: str | None
    """None for the model as it is."""
    at: float
    """Unix time."""
    kind: Literal["promote", "rollback"] = "promote"


class Promotions(Record):
    """What the file says, and the rules of going back."""

    history: tuple[Promotion, ...] = ()
    """All changes, oldest first."""
    line: tuple[str | None, ...] = Field((None,), min_length=1)
    """What a rollback walks along: the last is promoted, those before it were, in turn. It begins with the model as it
    is."""

    @property
    def current(self) -> str | None:
        """The promoted version; None for the model as it is."""
        return self.line[-1]

    def promote(self, policy: str | None) -> "Promotions":
        """Return what holds after a promotion; promoting again what is promoted changes nothing."""
        if policy == self.current:
            return self
        return Promotions(history=(*self.history, Promotion(policy=policy, at=time.time())), line=(*self.line, policy))

    def roll_back(self, there: Collection[str]) -> "Promotions":
        """Return what holds after going back to what was promoted before, of the versions that are still `there`.

        Raises:
            ConfigError: nothing was.
        """
        if len(self.line) == 1:
            raise ConfigError("Nothing was promoted before: there is nothing to go back to.")
        line = self.line[:-1]
        while line[-1] is not None and line[-1] not in there:
            line = line[:-1]
        change = Promotion(policy=line[-1], at=time.time(), kind="rollback")
        return Promotions(history=(*self.history, change), line=line)


class PromotedFile:
    """Reads and replaces the file. Reading costs a look at its times unless it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[tuple[int, int, int], Promotions] | None = None

    def read(self) -> Promotions:
        """Return what the file says; where there is none, nothing is promoted.

        Raises:
            ConfigError: it is damaged, or of a later release.
            StorageError: it cannot be read.
        """
        try:
            found = self._path.stat()
            mark = found.st_mtime_ns, found.st_size, found.st_ino
            if self._read is None or self._read[0] != mark:
                self._read = mark, Promotions.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return Promotions()
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read ({error.strerror}): see to its rights.") from error
        except ValidationError as error:
            raise ConfigError(
                f"{self._path} is damaged or of a later release: remove it, then promote a version again."
            ) from error
        return self._read[1]

    def write(self, promotions: Promotions) -> None:
        """Replace the file whole. To be called under the registry's lock.

        Raises:
            StorageError: it cannot be written; the old one is still there.
        """
        try:
            descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=".promoted-")
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(promotions.model_dump_json(indent=2))
                    file.flush()
                    os.fsync(file.fileno())
                os.chmod(name, 0o644)  # other users' processes may follow the promotion
                os.replace(name, self._path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise StorageError(f"{self._path} cannot be written: {error.strerror}; make room or see to it.") from error
