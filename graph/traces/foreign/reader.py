"""Reads trajectories from files of any format that is known, which is told from each record."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from graph.errors import ConfigError, TraceError
from graph.trace import Trajectory
from graph.traces.foreign.chat_log import is_chat, read_chat
from graph.traces.foreign.files import Record, find_files, is_columnar, read_records
from graph.traces.foreign.original import is_original, read_original
from graph.traces.foreign.record import LeftOut, UnreadableRecordError
from graph.traces.reading import Damage, DamagedTraceError, OnDamage, parse_trajectory

Format = Literal["agentflow", "original", "chat"]

_NAMES: dict[Format, str] = {
    "agentflow": "a trajectory",
    "original": "a file of the original AgentFlow",
    "chat": "a question with its answer",
}
_SHOWN_FIELDS = 6
_FIELD_CHARS = 30


def format_of(value: Any) -> Format | None:
    """Return the format of a JSON value, which its fields tell; None for none that is known."""
    if isinstance(value, Mapping) and {"schema_version", "question"} <= value.keys():
        return "agentflow"
    if is_original(value):
        return "original"
    return "chat" if is_chat(value) else None


def read_any(path: Path, wanted: Format | None, on_damage: OnDamage, left_out: LeftOut) -> Iterator[Trajectory]:
    """Yield the trajectories of a file, or of all files of a folder.

    Args:
        path: the file or folder.
        wanted: skip records of other formats.
        on_damage: told of each record that is skipped.
        left_out: counts what is left out of the others.

    Raises:
        ConfigError: there is no such path, or a folder cannot be read.
    """
    if not path.exists():
        raise ConfigError(f"There is no {path}: give a file or folder of traces.")
    try:
        for file in find_files(path):
            if is_columnar(file):
                yield from _columns(file, wanted, on_damage)
            else:
                for record in read_records(file, on_damage):
                    yield from _read(record, file, wanted, on_damage, left_out)
    except PermissionError as error:
        raise ConfigError(f"{error.filename} cannot be read ({error.strerror}): give a folder that can.") from error


def _columns(path: Path, wanted: Format | None, on_damage: OnDamage) -> Iterator[Trajectory]:
    """Yield the trajectories of Parquet, which holds our own only."""
    from graph.traces.parquet import read_parquet  # pyarrow is optional

    if wanted not in {None, "agentflow"}:
        on_damage(Damage(str(path), "format", f"it is Parquet, which is not read as {_NAMES[wanted or 'agentflow']}."))
        return
    try:
        yield from read_parquet(path, on_damage)
    except TraceError as error:
        on_damage(Damage(str(path), "unreadable", str(error)))


def _read(
    record: Record, file: Path, wanted: Format | None, on_damage: OnDamage, left_out: LeftOut
) -> Iterator[Trajectory]:
    found = format_of(record.value)
    if found is None or wanted not in {None, found}:
        on_damage(Damage(record.where, "format", _unknown(record.value, wanted)))
        return
    mine = LeftOut()
    try:
        match found:
            case "agentflow":
                yield parse_trajectory(json.dumps(record.value), record.where)
            case "original":
                yield read_original(record.value, file, mine)
            case "chat":
                yield from read_chat(record.value, mine)
    except UnreadableRecordError as error:
        on_damage(Damage(record.where, "format", str(error)))
    except DamagedTraceError as error:
        on_damage(error.damage)
    except (ValidationError, RecursionError) as error:
        on_damage(Damage(record.where, "value", f"it holds a value that no trajectory can ({type(error).__name__})."))
    else:
        left_out.update(mine)


def _unknown(value: Any, wanted: Format | None) -> str:
    names = _NAMES.values() if wanted is None else [_NAMES[wanted]]
    what = f"it is not {' or '.join(names)}"
    if not isinstance(value, Mapping):
        return f"{what}, but a bare {type(value).__name__}."
    fields = [str(name)[:_FIELD_CHARS] for name in list(value)[:_SHOWN_FIELDS]]
    return f"{what}; its fields are {', '.join(fields)}." if fields else f"{what}, but an empty object."
