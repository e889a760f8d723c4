"""What commands on traces hold in memory does not grow with the number of traces."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.any_trajectory import realistic
from tests.command import Workplace

FEW, MANY = 200, 700
"""Of 118 kB each: as objects, what MANY have more would take 180 MB."""
LARGEST_GROWTH = 100 * 2**20
"""Larger than a group of rows of a Parquet file, before and after it is encoded."""
MEASURED = """
import sys
from agentflow.main import run
try:
    run()
finally:
    told = open("/proc/self/status").read()
    print("peak", told.partition("VmHWM:")[2].split()[0])
"""
"""The command line, which tells its peak itself: what its parent sees would begin with the parent's."""
COMMANDS = {
    "import of JSON lines": ("import", "traces.jsonl"),
    "export to JSON lines": ("export", "exported.jsonl"),
    "export to Parquet": ("export", "exported"),
    "import of Parquet": ("import", "exported", "--set", "storage.url=again.db"),
    "stats": ("stats",),
    "validate": ("validate",),
}


def write_traces(path: Path, n: int) -> None:
    """Write `n` trajectories that differ in their ids and questions."""
    found = realistic(0)
    body = found.model_copy(update={"id": "ID", "question": "QUESTION"}).model_dump_json()
    with path.open("w", encoding="utf-8") as file:
        for number in range(n):
            line = body.replace('"ID"', f'"run-{number}"').replace('"QUESTION"', f'"{number}. {found.question}"')
            file.write(line + "\n")


def peaks_of(directory: Path, n: int) -> dict[str, int]:
    """Run every command on `n` trajectories, and return the bytes that each held at most."""
    directory.mkdir()
    place = Workplace(directory, "http://127.0.0.1:9/v1")
    write_traces(directory / "traces.jsonl", n)
    peaks = {}
    for name, words in COMMANDS.items():
        command = [sys.executable, "-c", MEASURED, "traces", *words]
        done = subprocess.run(
            command, cwd=directory, env=place.environment(), capture_output=True, text=True, timeout=280
        )
        assert done.returncode == 0, done.stderr
        peaks[name] = int(done.stdout.split()[-1]) * 1024
    return peaks


@pytest.fixture(scope="module")
def peaks(tmp_path_factory):
    directory = tmp_path_factory.mktemp("memory")
    return peaks_of(directory / "few", FEW), peaks_of(directory / "many", MANY)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.timeout(900)
def test_memory_does_not_grow(peaks, name):
    few, many = (found[name] for found in peaks)
    assert many - few < LARGEST_GROWTH
