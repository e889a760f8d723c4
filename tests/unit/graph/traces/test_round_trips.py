"""Any trajectory comes back the same from every format: the objects, and the text of every number."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph.feedback import with_feedback
from graph.storage.database import open_database
from graph.trace import Trajectory
from graph.traces.files import read_traces
from graph.traces.reading import parse_trajectory
from graph.traces.selection import Selection
from graph.traces.writing import format_of, open_writer
from tests.any_trajectory import FLOATS, trajectories
from tests.command import Workplace
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


def assert_exported(back: list[Trajectory], found: list[Trajectory]) -> None:
    """Fail unless `back` is what was stored, as it is exported; SQLite takes a remark's time of -0.0 for 0.0."""
    shown = sorted((with_feedback(one, one.feedback) for one in found), key=attrgetter("id"))
    back = sorted(back, key=attrgetter("id"))
    assert back == shown
    assert [one.model_dump_json(exclude={"feedback"}) for one in back] == [
        one.model_dump_json(exclude={"feedback"}) for one in shown
    ]


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


@settings(FEW, max_examples=30)
@given(st.lists(trajectories(), max_size=3, unique_by=lambda found: found.id))
def test_the_database(found):
    async def stored(url: str) -> list[Trajectory]:
        async with open_database(url) as database:
            assert all([await database.traces.add(trajectory) for trajectory in found])
            return [trajectory async for trajectory in database.traces.stream(Selection())]

    with places("runs.db") as (path,):
        back = asyncio.run(stored(str(path)))
    assert_exported(back, found)


@settings(FEW, max_examples=10)
@given(st.lists(trajectories(), min_size=1, max_size=3, unique_by=lambda found: found.id))
def test_the_commands(found):
    with places("first.jsonl", "folder", "last.jsonl") as (first, folder, last):
        through(first, found)
        place = Workplace(first.parent, "http://127.0.0.1:9/v1")
        place.call("traces", "import", first.name)
        place.call("traces", "export", folder.name)
        place.call("traces", "import", folder.name, "--set", "storage.url=again.db")
        place.call("traces", "export", last.name, "--set", "storage.url=again.db")
        back = list(read_traces(last, pytest.fail))
    assert_exported(back, found)


@settings(FEW, max_examples=25)
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
