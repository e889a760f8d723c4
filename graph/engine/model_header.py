"""The header of a GGUF file: its plain fields, and the shapes of its tensors.

The reader of the `gguf` package takes nine seconds to open a model, as it keeps each string of the vocabulary; this one
passes over lists.
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from graph.errors import ConfigError

Field = str | int | float | bool

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
"""struct's names of the types of the format."""
_STRING, _LIST = 8, 9


@dataclass(frozen=True)
class ModelHeader:
    """What a model says of itself."""

    path: Path
    fields: Mapping[str, Field]
    """Without the lists, such as the vocabulary."""
    shapes: Mapping[str, tuple[int, ...]]
    """Of each tensor, the fastest index first: a weight matrix is (inputs, outputs)."""

    @classmethod
    def read(cls, path: Path) -> "ModelHeader":
        """Read the header of a GGUF file.

        Raises:
            ConfigError: it cannot be read or is cut off.
        """
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return cls(path, *_Cursor(data).header())
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error.strerror}): run `agentflow setup`.") from error
        except (ValueError, KeyError, struct.error) as error:
            raise ConfigError(f"{path} is damaged or no GGUF file: fetch or copy it again.") from error


class _Cursor:
    """A place in the file that moves on with what is read."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._place = 8  # after the magic and the version

    def header(self) -> tuple[dict[str, Field], dict[str, tuple[int, ...]]]:
        tensors, count = self._number("<Q"), self._number("<Q")
        fields: dict[str, Field] = {}
        for _ in range(count):
            name = self._string()
            value = self._value(self._number("<I"))
            if value is not None:
                fields[name] = value
        shapes: dict[str, tuple[int, ...]] = {}
        for _ in range(tensors):
            name = self._string()
            shapes[name] = tuple(self._number("<Q") for _ in range(self._number("<I")))
            self._skip(12)  # the type and where the data lies
        return fields, shapes

    def _value(self, kind: int) -> Field | None:
        """Return a field, or None for a list."""
        if kind == _STRING:
            return self._string()
        if kind != _LIST:
            value: Field = self._unpack(_SCALARS[kind])
            return value
        kind, length = self._number("<I"), self._number("<Q")
        if kind == _STRING:
            for _ in range(length):
                self._skip(self._number("<Q"))
        else:
            self._skip(length * struct.calcsize(_SCALARS[kind]))
        return None

    def _string(self) -> str:
        length = self._number("<Q")
        text = self._data[self._place : self._place + length]
        self._skip(length)
        return text.decode()

    def _number(self, form: str) -> int:
        return int(self._unpack(form))

    def _unpack(self, form: str) -> Field:
        (value,) = struct.unpack_from(form, self._data, self._place)
        self._skip(struct.calcsize(form))
        found: Field = value
        return found

    def _skip(self, length: int) -> None:
        self._place += length
