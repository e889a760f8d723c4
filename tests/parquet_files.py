"""Writes and reads Parquet folders of trajectories."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from graph.trace import Trajectory
from graph.traces.parquet import read_parquet
from graph.traces.parquet_folder import ParquetFolder


def write(folder: Path, found: Iterable[Trajectory], **sizes: Any) -> Path:
    with ParquetFolder(folder, **sizes) as out:
        for trajectory in found:
            out.write(trajectory)
    return folder


def read(path: Path) -> list[Trajectory]:
    damages = []
    found = list(read_parquet(path, damages.append))
    assert not damages
    return found


def shards(folder: Path) -> list[Path]:
    return sorted((folder / "data").iterdir())


def table_of(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(shard) for shard in shards(folder)])


def rewritten(tmp_path: Path, table: pa.Table) -> Path:
    path = tmp_path / "rewritten.parquet"
    pq.write_table(table, path)
    return path
