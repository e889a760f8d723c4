"""Trajectories from files of either kind: JSON lines, or Parquet and what `datasets` saves."""

from collections.abc import Iterator
from pathlib import Path

from graph.errors import ConfigError
from graph.trace import Trajectory
from graph.traces.jsonl import read_jsonl
from graph.traces.reading import OnDamage

STANDARD_INPUT = Path("-")


def read_traces(path: Path, on_damage: OnDamage) -> Iterator[Trajectory]:
    """Yield the trajectories of a file or folder; `-` is standard input, as JSON lines.

    Raises:
        ConfigError: there is no such file, or it cannot be read.
    """
    if path == STANDARD_INPUT:
        yield from read_jsonl(Path("/dev/stdin"), on_damage)
        return
    if not path.exists():
        raise ConfigError(f"There is no {path}: give a file of JSON lines, or a folder of Parquet files.")
    if path.is_dir() or path.suffix in {".parquet", ".arrow"}:
        from graph.traces.parquet import read_parquet  # pyarrow is optional

        yield from read_parquet(path, on_damage)
        return
    yield from read_jsonl(path, on_damage)
