"""Writes trajectories as a Parquet folder, which `datasets`, pandas and DuckDB read.

It holds a README.md and shards (`data/train-00000-of-00003.parquet`), whose columns are the fields of a trajectory. It
appears whole or not at all. What is in memory is one group of rows, however many there are.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from graph.errors import ConfigError, StorageError, TraceError
from graph.trace import SCHEMA_VERSION, Trajectory
from graph.traces.arrow_types import Shape, load_pyarrow, shape_of
from graph.traces.parquet import trace_schema

if TYPE_CHECKING:
    from pyarrow import StructArray
    from pyarrow.parquet import ParquetWriter

GROUP_BYTES: Final = 32 * 2**20
"""Of a group of rows before it is encoded: what is in memory while writing."""
SHARD_BYTES: Final = 500 * 10**6
"""Of a file; the next group after that begins another one."""
_TOGETHER = 8
"""Rows that become columns at once: one by one they take twice as long."""
_LEVEL = 3
"""Of zstd: half of what snappy leaves, in little more time; level 6 gains 2 % and takes twice as long."""
_DATA = "data"
"""A folder of its own: pandas takes every file in a folder for a shard."""
_MARK = "agentflow_schema_version"
_SHARD = re.compile(r"train-\d{5}-of-\d{5}\.parquet")


class ParquetFolder:
    """Writes a new folder under another name, and gives it its own when the block ends well."""

    def __init__(
        self, folder: Path, *, overwrite: bool = False, group_bytes: int = GROUP_BYTES, shard_bytes: int = SHARD_BYTES
    ) -> None:
        self._folder = folder.resolve()
        self._overwrite = overwrite
        """Replace an earlier export; never anything else."""
        self._group_bytes, self._shard_bytes = group_bytes, shard_bytes
        self._part = self._folder.parent / f".{self._folder.name}.{os.getpid()}.part"
        self._schema = trace_schema()
        self._shape = shape_of(Trajectory)
        self._rows: list[dict[str, Any]] = []
        self._group: list[StructArray] = []
        self._held = 0
        """Bytes of the group."""
        self._file: ParquetWriter | None = None
        self._shards = 0
        self._written = 0

    def __enter__(self) -> Self:
        """Begin a folder.

        Raises:
            ConfigError: something else is there, or it cannot be written.
        """
        try:
            _refuse_taken(self._folder, overwrite=self._overwrite)
            shutil.rmtree(self._part, ignore_errors=True)
            (self._part / _DATA).mkdir(parents=True)
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be written ({error.strerror}): choose another folder.") from error
        return self

    def write(self, found: Trajectory) -> None:
        """Write one trajectory.

        Raises:
            TraceError: it, or one shortly before it, holds a number of more than 64 bits.
            StorageError: the disk does not take it.
        """
        self._rows.append(self._shape.encode(found.model_dump()))
        self._written += 1
        if len(self._rows) == _TOGETHER:
            self._convert()
        if self._held >= self._group_bytes:
            with self._telling():
                self._write_group()

    def _convert(self) -> None:
        """Make Arrow's columns of the rows."""
        try:
            cells = _cells(self._rows, self._shape)
        except TraceError:
            for row in self._rows:  # which one?
                _cells([row], self._shape)
            raise
        self._rows = []
        self._group.append(cells)
        self._held += cells.nbytes

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the folder in its place, or leave what was there.

        Raises:
            StorageError: the disk does not take it.
            ConfigError: something else was put there meanwhile.
        """
        try:
            with self._telling():
                if error is None:
                    self._convert()
                    if self._held or not self._shards:
                        self._write_group()
                self._close_shard()
                if error is None:
                    self._finish()
                    self._take_place()
        finally:
            shutil.rmtree(self._part, ignore_errors=True)

    def _write_group(self) -> None:
        if self._file is None:
            self._file = self._new_shard()
        pa = load_pyarrow()
        table = pa.Table.from_batches(map(pa.RecordBatch.from_struct_array, self._group), self._schema)
        self._file.write_table(table.combine_chunks(), row_group_size=max(table.num_rows, 1))
        self._group, self._held = [], 0
        if self._shard(self._shards - 1).stat().st_size >= self._shard_bytes:
            self._close_shard()

    def _new_shard(self) -> "ParquetWriter":
        from pyarrow.parquet import ParquetWriter

        path = self._shard(self._shards)
        self._shards += 1
        # zstd finds what repeats; dictionaries would cost time and gain nothing.
        options = {"compression": "zstd", "compression_level": _LEVEL, "use_dictionary": False}
        return ParquetWriter(path, self._schema, write_page_checksum=True, **options)

    def _close_shard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _shard(self, number: int) -> Path:
        return self._part / _DATA / f"{number:05}.parquet"

    def _finish(self) -> None:
        """Name the shards by their number, and describe them."""
        for number in range(self._shards):
            name = f"train-{number:05}-of-{self._shards:05}.parquet"
            shard = self._shard(number).rename(self._part / _DATA / name)
            with shard.open("rb") as file:
                os.fsync(file.fileno())
        (self._part / "README.md").write_text(_card(self._shape, self._written), encoding="utf-8")

    def _take_place(self) -> None:
        _refuse_taken(self._folder, overwrite=self._overwrite)
        old = self._folder.rename(self._part.with_suffix(".old")) if self._folder.is_dir() else None
        try:
            self._part.rename(self._folder)
        except OSError:
            if old:
                old.rename(self._folder)
            raise
        if old:
            shutil.rmtree(old)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or error
            raise StorageError(f"{self._folder} cannot be written ({why}): free space, or choose another.") from error


def _cells(rows: list[dict[str, Any]], shape: Shape) -> "StructArray":
    pa = load_pyarrow()
    try:
        return pa.array(rows, type=shape.arrow)
    except (pa.ArrowException, OverflowError) as error:
        name = rows[0]["id"]
        raise TraceError(f"The trajectory {name!r} cannot be written as Parquet: {error}.") from error


def _refuse_taken(folder: Path, *, overwrite: bool) -> None:
    """Refuse a place where anything is that must not be lost."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"{folder} is a file: choose a folder that is not there yet.")
    names = {path.name for path in folder.iterdir()}
    if not names:
        return
    if foreign := _foreign(folder, names):
        raise ConfigError(f"{folder} is no export of traces ({foreign}): choose a folder that is not there yet.")
    if not overwrite:
        raise ConfigError(f"{folder} holds an export already: choose another folder, or add --overwrite.")


def _foreign(folder: Path, names: set[str]) -> str | None:
    """Return what in a folder no export wrote."""
    card = folder / "README.md"
    if not card.is_file() or _MARK not in card.read_text(encoding="utf-8", errors="replace"):
        return "it has no README.md of one"
    if other := sorted(names - {"README.md", _DATA}):
        return f"it holds {other[0]!r}"
    shards = sorted(path.name for path in (folder / _DATA).glob("*"))
    return next((f"it holds {_DATA}/{name}" for name in shards if not _SHARD.fullmatch(name)), None)


def _card(shape: Shape, rows: int) -> str:
    """Return the README.md: what is in the folder, and its columns."""
    columns = "\n".join(f"| `{name}` | {kind} |" for name, kind in _columns(shape, ""))
    return f"""---
pretty_name: AgentFlow traces
{_MARK}: {SCHEMA_VERSION}
---

# AgentFlow traces

{rows} trajectories of schema version {SCHEMA_VERSION}, one a row: `datasets.load_dataset("FOLDER", split="train")`.
What may be null is marked with `?`; JSON is text, as what is in it has keys of its own.

| column | type |
|---|---|
{columns}
"""


def _columns(shape: Shape, prefix: str) -> Iterator[tuple[str, str]]:
    for name, field in shape.fields.items():
        yield prefix + name, field.shape.label + (" ?" if field.optional else "")
        yield from _columns(field.shape, f"{prefix}{name}.")
