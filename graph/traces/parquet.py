"""Reads trajectories from Parquet, as exports write it and as `datasets`, pandas and DuckDB write it back.

Other programs drop a file's metadata, reorder columns and choose larger types: what counts is that each column can be
read as what the schema wants there.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from graph.errors import ConfigError, TraceError
from graph.trace import SCHEMA_VERSION, Trajectory
from graph.traces.arrow_types import Convert, load_pyarrow, shape_of
from graph.traces.reading import Damage, DamagedTraceError, OnDamage, parse_trajectory

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema

VERSION_KEY: Final = b"agentflow_schema_version"
"""Of a file's metadata: the version of the trace schema."""
_ROWS = 16
"""Trajectories that are in memory at once, beside the encoded group that they are in."""
_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
"""Columns that pandas adds when rows were chosen: numbers of rows, which say nothing of a trajectory."""


def trace_schema() -> "Schema":
    """Return the Arrow schema of a trajectory.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    metadata = {VERSION_KEY: str(SCHEMA_VERSION).encode()}
    return load_pyarrow().schema(list(shape_of(Trajectory).arrow), metadata=metadata)


def read_parquet(path: Path, on_damage: OnDamage) -> Iterator[Trajectory]:
    """Yield the trajectories of a Parquet file or folder, or of a folder of `datasets`, in order.

    Args:
        path: the file or folder.
        on_damage: told of each row that is skipped.

    Raises:
        ConfigError: it cannot be read, holds no such file, or pyarrow is not installed.
        TraceError: a file is damaged, of another schema version, or has columns that are no trajectory's.
    """
    for file in _files(path):
        with _telling(file):
            yield from _trajectories(file, on_damage)


def _files(path: Path) -> list[Path]:
    """Return the files of a folder, in order."""
    if path.is_file():
        return [path]
    try:
        if (splits := path / "dataset_dict.json").is_file():
            return [file for name in json.loads(splits.read_bytes())["splits"] for file in _files(path / name)]
        if (state := path / "state.json").is_file():
            return [path / entry["filename"] for entry in json.loads(state.read_bytes())["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{path} is no whole folder of `datasets`: save it again.") from error
    found = sorted(file for file in path.rglob("*.parquet") if not _is_hidden(file.relative_to(path)))
    if not found:
        raise ConfigError(f"{path} holds no Parquet file: give a .parquet file, or a folder with some.")
    _refuse_incomplete(path, found)
    return found


def _is_hidden(file: Path) -> bool:
    return any(part.startswith(".") for part in file.parts)


def _refuse_incomplete(path: Path, files: list[Path]) -> None:
    matches = [(file.parent, match) for file in files if (match := _SHARD.fullmatch(file.stem))]
    counts = Counter((folder, match[1], int(match[2])) for folder, match in matches)
    for (_, name, total), found in counts.items():
        if found != total:
            raise TraceError(f"{path} has {found} of the {total} files of {name!r}: copy the whole folder.")


@contextmanager
def _telling(file: Path) -> Iterator[None]:
    """Make sentences of what pyarrow raises."""
    pa = load_pyarrow()
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise TraceError(f"{file} is damaged ({_first_line(error)}): write it again.") from error
    except OSError as error:
        if error.errno is None:  # from pyarrow: bytes that it does not understand
            raise TraceError(f"{file} is damaged ({_first_line(error)}): write it again.") from error
        raise ConfigError(f"{file} cannot be read ({error.strerror}): give a Parquet file or folder.") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _trajectories(file: Path, on_damage: OnDamage) -> Iterator[Trajectory]:
    number = 0
    for decode, batch in _batches(file):
        for row in batch.to_pylist():
            number += 1
            where = f"{file}, row {number}"
            try:
                found = parse_trajectory(to_json(decode(row), inf_nan_mode="constants"), where)
            except DamagedTraceError as error:
                on_damage(error.damage)
            except TraceError as error:
                on_damage(Damage(where, "json_invalid", str(error)))
            else:
                yield found


def _batches(file: Path) -> "Iterator[tuple[Convert, RecordBatch]]":
    """Yield a few rows at a time, with what decodes them."""
    pa = load_pyarrow()
    if file.suffix == ".arrow":
        with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as stream:
            decode, columns = _decoder(file, stream.schema)
            for batch in stream:
                for start in range(0, batch.num_rows, _ROWS):
                    yield decode, batch.slice(start, _ROWS).select(columns)
    else:
        from pyarrow.parquet import ParquetFile

        with ParquetFile(file, page_checksum_verification=True) as source:
            decode, columns = _decoder(file, source.schema_arrow)
            for batch in source.iter_batches(_ROWS):
                yield decode, batch.select(columns)


def _decoder(file: Path, schema: "Schema") -> tuple[Convert, list[str]]:
    """Return what decodes a file's rows, and the columns that it takes."""
    version = (schema.metadata or {}).get(VERSION_KEY)
    if version not in {None, str(SCHEMA_VERSION).encode()}:
        raise TraceError(
            f"{file} is of schema version {version.decode(errors='replace')!r}, and this release reads version "
            f"{SCHEMA_VERSION}: use the release that wrote it."
        )
    fields: list[Any] = [field for field in schema if not _PANDAS_INDEX.fullmatch(field.name)]
    try:
        decode = shape_of(Trajectory).decoder(load_pyarrow().struct(fields), "")
    except TraceError as error:
        raise TraceError(f"{file} cannot be read as traces: {error}.") from error
    return decode, [field.name for field in fields]
