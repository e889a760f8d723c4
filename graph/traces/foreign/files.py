"""Reads files of JSON, whoever wrote them: JSON lines, one object, or an array of them."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from graph.traces.foreign.chat_messages import are_messages
from graph.traces.foreign.record import UnreadableRecordError
from graph.traces.reading import Damage, OnDamage

MOST_BYTES: Final = 10**9
"""Of JSON that is read as a whole, and of a line."""
_LINES = frozenset({".jsonl", ".ndjson"})
_COLUMNS = frozenset({".parquet", ".arrow"})
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Record:
    """One JSON value of a file."""

    where: str
    value: Any


def find_files(path: Path) -> Iterator[Path]:
    """Yield a file, or the files of a folder that may hold traces, in order of their names.

    A folder of Parquet files is yielded as a whole. Hidden files are passed over.
    """
    if not path.is_dir() or _is_columnar(path):
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name.startswith(".") or (entry.is_dir() and entry.is_symlink()):
            continue
        if entry.is_dir():
            yield from find_files(entry)
        elif entry.is_file() and entry.suffix in {".json", *_LINES, *_COLUMNS}:
            yield entry


def is_columnar(path: Path) -> bool:
    """Whether a path that `find_files` yields is for the reader of Parquet."""
    return path.is_dir() or path.suffix in _COLUMNS


def read_records(path: Path, on_damage: OnDamage) -> Iterator[Record]:
    """Yield the JSON values of a file: its lines, its object, or the items of its array.

    Args:
        path: the file; `.json` may hold lines, too.
        on_damage: told of what is skipped.
    """
    try:
        with path.open("rb") as file:
            yield from _records(file, path, on_damage)
    except OSError as error:
        on_damage(Damage(str(path), "unreadable", f"it cannot be read ({error.strerror})."))


def _is_columnar(folder: Path) -> bool:
    if any((folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
        return True
    has_json = any(entry.suffix in {".json", *_LINES} for entry in folder.iterdir())
    return not has_json and any(next(place.glob("*.parquet"), None) for place in (folder, folder / "data"))


def _records(file: BinaryIO, path: Path, on_damage: OnDamage) -> Iterator[Record]:
    number, is_first = 0, True
    while line := file.readline(MOST_BYTES + 1):
        number += 1
        data = line.removeprefix(_BOM) if number == 1 else line
        if not data.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = _parse(data)
        except UnreadableRecordError as error:
            if is_first and path.suffix not in _LINES:
                yield from _whole(data, file, path, on_damage)
                return
            on_damage(_damaged_line(line, where, error))
        else:
            yield from _items(value, where)
        is_first = False


def _damaged_line(line: bytes, where: str, error: UnreadableRecordError) -> Damage:
    if line.endswith(b"\n"):
        return Damage(where, "json_invalid", str(error))
    return Damage(where, "torn", "the file ends in the middle of this line; it is left out.")


def _whole(begun: bytes, file: BinaryIO, path: Path, on_damage: OnDamage) -> Iterator[Record]:
    """Yield what a file holds that is one JSON value, or report it."""
    if os.fstat(file.fileno()).st_size > MOST_BYTES:
        on_damage(Damage(str(path), "too_large", "it is one JSON value of more than 1 GB: write it as JSON lines."))
        return
    try:
        value = _parse(begun + file.read(MOST_BYTES))
    except UnreadableRecordError as error:
        on_damage(Damage(str(path), "json_invalid", str(error)))
        return
    yield from _items(value, str(path))


def _items(value: Any, where: str) -> Iterator[Record]:
    """Yield a value, or the items of an array, unless these are the messages of one conversation."""
    if not isinstance(value, list) or are_messages(value):
        yield Record(where, value)
        return
    for number, item in enumerate(value, 1):
        yield Record(f"{where}, item {number}", item)


def _parse(data: bytes) -> Any:
    """Return the JSON value.

    Raises:
        UnreadableRecordError: it is none, or not in UTF-8.
    """
    if len(data) > MOST_BYTES:
        raise UnreadableRecordError("it is longer than 1 GB.")
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError as error:
        raise UnreadableRecordError("it is no UTF-8: save it as UTF-8.") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, character {error.colno}" if error.lineno > 1 else f"character {error.colno}"
        raise UnreadableRecordError(f"it is no JSON ({error.msg}, {place}).") from error
    except ValueError as error:  # integers of more than 4300 digits
        raise UnreadableRecordError("it holds a number that is too long.") from error
    except RecursionError as error:
        raise UnreadableRecordError("it is nested too deeply.") from error
