"""Parquet folders are written whole or not at all, and replace nothing but earlier ones."""

import os
import resource
import signal
import subprocess
import sys

import pytest

from graph.errors import ConfigError, StorageError, TraceError
from graph.records import Command, Observation, Plan, QueryAnalysis, Turn, Usage, Verdict
from graph.trace import Trajectory
from graph.traces.arrow_types import load_pyarrow
from graph.traces.parquet import trace_schema
from graph.traces.parquet_folder import ParquetFolder
from tests.any_trajectory import realistic
from tests.trajectories import make_call

pytest.importorskip("pyarrow", reason="needs the parquet extra")
import pyarrow.parquet as pq

from tests.parquet_files import read, shards, table_of, write


@pytest.fixture(scope="module")
def some():
    return [realistic(seed, prompt_tokens=40) for seed in range(20)]


@pytest.fixture
def folder(tmp_path, some):
    return write(tmp_path / "traces", some)


def test_none_empty_and_records_of_none_stay_apart(tmp_path):
    bare = Trajectory(id="1", question="q")
    empty = Trajectory(
        id="2",
        question="",
        conversation="",
        reference=(),
        analysis=QueryAnalysis(summary=""),
        turns=(
            Turn(),
            Turn(
                plan=Plan(sub_goal="", tool=""),
                command=Command(tool="t", calls=({}, {"a": None})),
                observations=(Observation(tool="t", arguments={}, status="ok", content="", artifact={}),),
                verdict=Verdict(stop=False),
            ),
        ),
        calls=(
            make_call("planner", 0, messages=(), prompt_ids=(), completion_ids=(), logprobs=(), sampling={}),
            make_call("planner", 1, messages=None, prompt_ids=None, completion_ids=(), sampling=None, usage=Usage()),
        ),
    )
    back = read(write(tmp_path / "traces", [bare, empty]))
    assert back == [bare, empty]
    assert (back[0].reference, back[1].reference) == (None, ())
    assert [call.prompt_ids for call in back[1].calls] == [(), None]
    assert back[1].turns[1].observations[0].artifact == {}


def test_a_large_export_has_several_shards_in_order(tmp_path, some):
    folder = write(tmp_path / "traces", some, group_bytes=100_000, shard_bytes=60_000)
    names = [shard.name for shard in shards(folder)]
    assert len(names) > 2
    assert names == [f"train-{number:05}-of-{len(names):05}.parquet" for number in range(len(names))]
    assert [found.id for found in read(folder)] == [found.id for found in some]


def test_a_shard_has_a_group_for_every_few_rows(tmp_path, some):
    (shard,) = shards(write(tmp_path / "traces", some, group_bytes=100_000))
    metadata = pq.read_metadata(shard)
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [8, 8, 4]


def test_no_shard_is_empty(tmp_path, some):
    folder = write(tmp_path / "traces", some[:16], group_bytes=1, shard_bytes=1)
    assert [pq.read_metadata(shard).num_rows for shard in shards(folder)] == [8, 8]


def test_the_readme_says_what_is_in_the_folder(folder):
    text = (folder / "README.md").read_text()
    assert "20 trajectories of schema version 1" in text
    assert "| `calls.logprobs` | list of double ? |" in text
    assert "| `turns.observations.arguments` | JSON |" in text


def test_an_export_of_nothing_has_the_columns(tmp_path):
    folder = write(tmp_path / "traces", [])
    assert read(folder) == []
    assert table_of(folder).schema.equals(trace_schema())


# Where it is written


def test_nothing_appears_before_the_end(tmp_path, some):
    folder = tmp_path / "new" / "traces"
    with ParquetFolder(folder, group_bytes=1) as out:
        out.write(some[0])
        assert not folder.exists()
    assert read(folder) == some[:1]
    assert os.listdir(folder.parent) == ["traces"]


def test_an_export_that_fails_leaves_what_was_there(folder, some):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def failing():
        yield some[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(folder, failing(), overwrite=True, group_bytes=1)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert os.listdir(folder.parent) == ["traces"]


def test_an_export_that_is_killed_leaves_nothing_that_looks_whole(tmp_path):
    program = """
import os, signal, sys
from pathlib import Path
from graph.traces.parquet_folder import ParquetFolder
from tests.any_trajectory import realistic
with ParquetFolder(Path(sys.argv[1]), group_bytes=1, shard_bytes=1) as out:
    for seed in range(3):
        out.write(realistic(seed, prompt_tokens=40))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "traces")], timeout=120)
    assert ended.returncode == -signal.SIGKILL
    assert all(name.startswith(".") for name in os.listdir(tmp_path))
    with pytest.raises(ConfigError, match="holds no Parquet file"):
        read(tmp_path)


def test_an_export_replaces_an_earlier_one_only_when_told(folder, some):
    with pytest.raises(ConfigError, match="holds an export already"):
        write(folder, some[:1])
    write(folder, some[:1], overwrite=True)
    assert read(folder) == some[:1]
    assert os.listdir(folder.parent) == ["traces"]


@pytest.mark.parametrize("name", ["README.md", "notes.txt", "data/notes.txt"])
def test_what_no_export_wrote_is_never_replaced(folder, some, name):
    (folder / name).write_text("mine")
    with pytest.raises(ConfigError, match="is no export of traces"):
        write(folder, some, overwrite=True)
    assert (folder / name).read_text() == "mine"


def test_an_empty_folder_is_taken(tmp_path, some):
    (tmp_path / "traces").mkdir()
    assert read(write(tmp_path / "traces", some)) == some


def test_a_file_or_a_place_that_cannot_be_written_is_refused(tmp_path, some):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="is a file"):
        write(tmp_path / "file", some)
    with pytest.raises(ConfigError, match="cannot be written"):
        write(tmp_path / "file" / "traces", some)


def test_a_full_disk_is_a_sentence(tmp_path, some):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"traces cannot be written \(.+\): free space"):
            write(tmp_path / "traces", some)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []


def test_a_number_beyond_64_bits_is_refused(tmp_path):
    large = Trajectory(id="large", question="q", parent_turns=2**63)
    with pytest.raises(TraceError, match="'large' cannot be written as Parquet"):
        write(tmp_path / "traces", [large])


def test_pyarrow_is_loaded_late_and_missed_in_a_sentence(monkeypatch):
    program = "import graph.traces.parquet, graph.traces.parquet_folder, sys; print('pyarrow' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'agentflow\[parquet\]'"):
        load_pyarrow()
