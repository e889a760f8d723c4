"""Any trajectory comes back the same from every format: the objects, and the text of every number."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph.trace import Trajectory
from graph.traces.files import read_traces
from graph.traces.reading import parse_trajectory
from graph.traces.writing import format_of, open_writer
from tests.any_trajectory import FLOATS, trajectories
from tests.trajectories import make_call

pytest.importorskip("pyarrow", reason="needs the parquet extra")
FEW = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@contextmanager
def places(*names: str) -> Iterator[list[Path]]:
    with tempfile.TemporaryDirectory() as directory:
        yield [Path(directory, name) for name in names]


def through(out: Path, found: list[Trajectory]) -> list[Trajectory]:
    """Write and read back."""
    with open_writer(out, format_of(out)) as write:
        assert all(write(trajectory) for trajectory in found)
    damages = []
    back = list(read_traces(out, damages.append))
    assert not damages
    return back


def texts(found: list[Trajectory]) -> list[str]:
    """Equality takes 0.0 for -0.0, 1 for 1.0 and True; their text differs."""
    return [trajectory.model_dump_json() for trajectory in found]


@FEW
@given(st.lists(trajectories(), max_size=3))
def test_json_lines_to_parquet_to_json_lines(found):
    with places("a.jsonl", "b", "c.jsonl") as (first, folder, last):
        back = through(last, through(folder, through(first, found)))
        assert back == found
        assert texts(back) == texts(found)
        assert last.read_bytes() == first.read_bytes()


@FEW
@given(trajectories())
def test_one_line(found):
    back = parse_trajectory(found.model_dump_json(), "here")
    assert (back, texts([back])) == (found, texts([found]))


@settings(max_examples=150, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=50))
def test_numbers_keep_every_bit(numbers):
    call = make_call("planner", -1, completion_ids=range(len(numbers)), logprobs=numbers, sampling={"n": numbers})
    found = Trajectory(id="1", question="q", calls=(call,))
    with places("a.jsonl", "b") as outs:
        for out in outs:
            (back,) = through(out, [found])
            assert [value.hex() for value in back.calls[0].logprobs] == [value.hex() for value in numbers]
            assert [value.hex() for value in back.calls[0].sampling["n"]] == [value.hex() for value in numbers]


@FEW
@given(trajectories())
def test_datasets_gives_back_what_it_was_given(found):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="needs the train extra")
    datasets.disable_progress_bars()
    with places("a", "cache", "saved") as (folder, cache, saved):
        through(folder, [found])
        loaded = datasets.load_dataset(str(folder), split="train", cache_dir=str(cache))
        loaded.save_to_disk(str(saved))
        damages = []
        back = list(read_traces(saved, damages.append))
        assert (damages, texts(back)) == ([], texts([found]))
