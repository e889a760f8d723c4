"""Writes trajectories to a file or folder of either kind."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic_core import from_json

from graph.errors import ConfigError
from graph.trace import Trajectory
from graph.traces.jsonl import JsonlAppender, JsonlWriter

Format = Literal["jsonl", "parquet"]
Write = Callable[[Trajectory], bool]
"""Writes one; False where it is there already."""
STANDARD_OUTPUT = Path("-")


def format_of(out: Path) -> Format:
    """Return what a name stands for: `.jsonl` and `-` for JSON lines, a name without an ending for a Parquet folder.

    Raises:
        ConfigError: it has another ending.
    """
    if out == STANDARD_OUTPUT or out.suffix in {".jsonl", ".ndjson"}:
        return "jsonl"
    if out.suffix == "" or out.is_dir():
        return "parquet"
    raise ConfigError(f"{out} is neither a .jsonl file nor a folder: name one, or say --format jsonl or parquet.")


def check_place(out: Path, kind: Format, *, append: bool, overwrite: bool) -> None:
    """Refuse what cannot be written, before anything is read.

    Raises:
        ConfigError: it is there already, is of another kind, or cannot be appended to.
    """
    if append and overwrite:
        raise ConfigError("--append and --overwrite exclude each other: choose one.")
    if append and (kind != "jsonl" or out == STANDARD_OUTPUT):
        raise ConfigError("--append adds to a file of JSON lines: name a .jsonl file, or leave it out.")
    if out == STANDARD_OUTPUT:
        if kind != "jsonl":
            raise ConfigError("Parquet is written to a folder: name one.")
        return
    if kind == "jsonl" and out.is_dir():
        raise ConfigError(f"{out} is a folder: name a file for JSON lines.")
    if kind == "parquet" and out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file: name a folder for Parquet.")
    there = any(out.iterdir()) if out.is_dir() else out.exists()
    if there and not append and not overwrite:
        more = ", or --append to it" if kind == "jsonl" else ""
        raise ConfigError(f"{out} is there already: choose another name, or --overwrite it{more}.")


@contextmanager
def open_writer(out: Path, kind: Format, *, append: bool = False, overwrite: bool = False) -> Iterator[Write]:
    """Open `out` for writing. A new file or folder appears when the block ends well.

    Raises:
        ConfigError: it cannot be written.
    """
    if out == STANDARD_OUTPUT:
        yield _write_line
    elif kind == "parquet":
        from graph.traces.parquet_folder import ParquetFolder  # pyarrow is optional

        with ParquetFolder(out, overwrite=overwrite) as folder:

            def write_row(found: Trajectory) -> bool:
                folder.write(found)
                return True

            yield write_row
    elif append:
        present = _ids(out) if out.exists() else set()
        with JsonlAppender(out) as appender:

            def add_line(found: Trajectory) -> bool:
                if found.id in present:
                    return False
                present.add(found.id)
                appender.write(found.model_dump_json())
                return True

            yield add_line
    else:
        with JsonlWriter(out) as writer:

            def write_line(found: Trajectory) -> bool:
                writer.write(found.model_dump_json())
                return True

            yield write_line


def _write_line(found: Trajectory) -> bool:
    # UTF-8, whatever the terminal's encoding is: a character that it lacks would be lost.
    sys.stdout.buffer.write(found.model_dump_json().encode() + b"\n")
    return True


def _ids(file: Path) -> set[str]:
    """Return the ids in a file of JSON lines; those of lines that nobody can read are not there."""
    found = set()
    with file.open("rb") as lines:
        for line in lines:
            try:
                record = from_json(line)
            except ValueError:
                continue
            if isinstance(record, dict) and isinstance(record.get("id"), str):
                found.add(record["id"])
    return found
