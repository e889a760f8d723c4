"""Trajectories as JSON lines: whole files, appended lines, and what crashes leave."""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from graph.errors import ConfigError
from graph.trace import Trajectory
from graph.traces.jsonl import JsonlAppender, JsonlWriter, read_jsonl
from graph.traces.reading import Damage
from tests.any_trajectory import realistic, trajectories
from tests.command import REPOSITORY

_PROCESSES = multiprocessing.get_context("forkserver")


def read(path: Path) -> tuple[list[Trajectory], list[Damage]]:
    damages: list[Damage] = []
    return list(read_jsonl(path, damages.append)), damages


def make(name: str, question: str = "q") -> Trajectory:
    return Trajectory(id=name, question=question)


def write(path: Path, *names: str) -> bytes:
    with JsonlWriter(path) as writer:
        for name in names:
            writer.write(make(name).model_dump_json())
    return path.read_bytes()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(trajectories())
def test_what_is_written_is_read(tmp_path, found):
    path = tmp_path / "t.jsonl"
    with JsonlWriter(path) as writer:
        writer.write(found.model_dump_json())
        writer.write(found.model_dump_json())
    assert read(path) == ([found, found], [])
    assert path.read_bytes().count(b"\n") == 2


def test_a_file_appears_at_its_end_or_not_at_all(tmp_path):
    path = tmp_path / "t.jsonl"
    with JsonlWriter(path) as writer:
        writer.write("{}")
        assert not path.exists()
    before = path.read_bytes()

    def fail() -> None:
        with JsonlWriter(path) as writer:
            writer.write("{}")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    for kind in (JsonlWriter, JsonlAppender):
        with (
            pytest.raises(ConfigError, match=r"cannot be written \(Not a directory|File exists\)"),
            kind(tmp_path / "file" / "t.jsonl"),
        ):
            pass


@pytest.mark.parametrize("cut", [1, 2, 20, 60])
def test_a_torn_last_line_is_told_and_skipped(tmp_path, cut):
    path = tmp_path / "t.jsonl"
    data = write(path, "a", "b")
    path.write_bytes(data[:-cut])
    found, damages = read(path)
    if cut == 1:  # only the line's end is missing
        assert ([one.id for one in found], damages) == (["a", "b"], [])
        return
    assert [one.id for one in found] == ["a"]
    assert [(damage.where, damage.kind) for damage in damages] == [(f"{path}, line 2", "torn")]


@pytest.mark.parametrize("cut", [1, 2, 60])
def test_appending_after_a_torn_line_glues_nothing(tmp_path, cut):
    path = tmp_path / "t.jsonl"
    path.write_bytes(write(path, "a", "b")[:-cut])
    with JsonlAppender(path) as appender:
        appender.write(make("c").model_dump_json())
    found, damages = read(path)
    assert [one.id for one in found] == (["a", "b", "c"] if cut == 1 else ["a", "c"])
    assert len(damages) == (0 if cut == 1 else 1)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"{", "json_invalid"),
        (b"\xff\xfe", "json_invalid"),
        (b"null", "model_type"),
        (b'"text"', "model_type"),
        (b"[{}]", "model_type"),
        (b"{}", "missing"),
        (b'{"schema_version": 2, "new": true}', "version"),
        (b'{"schema_version": "1", "id": "a", "question": "q"}', "version"),
        (b'{"id": 7, "question": "q"}', "string_type"),
        (b'{"id": "a", "question": "q", "created": "1"}', "float_type"),
        (b'{"id": "a", "question": "q", "created": NaN}', "finite_number"),
        (b'{"id": "a", "question": "\\ud800"}', "json_invalid"),
        (b'{"id": "a", "question": "q", "unknown": 1}', "extra_forbidden"),
        (b'{"id": "a", "question": "q", "reward": 1.0}', "unsourced_reward"),
        (b"[" * 100_000, "json_invalid"),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else value,
)
def test_lines_that_are_no_trajectories_are_named(tmp_path, line, kind):
    path = tmp_path / "t.jsonl"
    good = make("a").model_dump_json().encode()
    path.write_bytes(b"\xef\xbb\xbf" + good + b"\r\n\n" + line + b"\n" + good)
    found, damages = read(path)
    assert [one.id for one in found] == ["a", "a"]
    assert [(damage.where, damage.kind) for damage in damages] == [(f"{path}, line 3", kind)]
    assert "\n" not in damages[0].why


def append_many(path: Path, name: str, count: int) -> None:
    with JsonlAppender(path) as appender:
        for number in range(count):
            appender.write(make(f"{name}-{number}", "q" * 50_000).model_dump_json())


def test_processes_append_at_once(tmp_path):
    path = tmp_path / "t.jsonl"
    writers = [_PROCESSES.Process(target=append_many, args=(path, f"w{n}", 40)) for n in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found, damages = read(path)
    assert damages == []
    assert {one.id for one in found} == {f"w{n}-{number}" for n in range(6) for number in range(40)}
    assert len(found) == 240


_APPEND = """
import sys
from pathlib import Path
from graph.traces.jsonl import JsonlAppender
from tests.any_trajectory import realistic
line = realistic(1).model_dump_json()
with JsonlAppender(Path(sys.argv[1])) as appender:
    print("ready", flush=True)
    while True:
        appender.write(line)
"""


def test_killed_while_appending(tmp_path):
    """At most the last line is torn, and whoever comes next loses nothing."""
    path = tmp_path / "t.jsonl"
    for round_ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", _APPEND, str(path)], stdout=subprocess.PIPE, cwd=REPOSITORY, env=os.environ
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        size = path.stat().st_size
        while path.stat().st_size < size + 3_000_000:
            pass
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        before, torn = read(path)
        with JsonlAppender(path) as appender:
            appender.write(make(f"after-{round_}").model_dump_json())
        found, damages = read(path)
        assert len(found) == len(before) + 1
        assert found[-1].id == f"after-{round_}"
        assert len(damages) == len(torn) <= round_ + 1


def test_a_full_disk_leaves_no_half_line(tmp_path):
    """A limit on the size of files stands in for the disk: the write is cut in the same way."""
    path = tmp_path / "t.jsonl"
    line = realistic(1).model_dump_json()
    code = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({len(line) + 1000}, resource.RLIM_INFINITY))
from pathlib import Path
from graph.traces.jsonl import JsonlAppender
line = {line!r}
with JsonlAppender(Path({str(path)!r})) as appender:
    appender.write(line)
    try:
        appender.write(line)
    except OSError as error:
        print(error.errno)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert done.stdout.strip() == "27"  # EFBIG
    assert read(path) == ([realistic(1)], [])
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
