"""How quickly traces are exported, imported and checked, and how much memory that takes.

    python -m benchmarks.traces [--n 10000] [--large]

Fills a database in a temporary directory with trajectories of a typical size (three turns, prompts of some kB, token
ids and log-probabilities of the planner's calls) as runs leave them, then runs the commands that a user runs, each in a
process of its own. Rates count the whole process, from its start; memory is the most that it ever held.
"""

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.table import Table

LARGE = 100_000
KINDS = {".jsonl": "JSON lines", "": "Parquet"}


@dataclass(frozen=True)
class Measured:
    """What one command took."""

    seconds: float
    cpu: float
    """Seconds that processors worked for it: what `seconds` comes near to where nothing else runs."""
    peak: int
    """Bytes."""


def fill(database: str, n: int, sizes: Sequence[int]) -> Measured:
    """Store `n` runs that have ended, and return what storing took.

    The first of them bear tags: `first-1000` is on the first 1000, for each of `sizes`.
    """
    # What is imported here is none of the parent's: the peak of a process begins with that of the one that started it.
    from graph.state import Request
    from graph.storage.database import open_database
    from tests.any_trajectory import realistic

    async def store() -> Measured:
        spent = cpu = 0.0
        async with open_database(database) as opened:
            for seed in range(n):
                tags = tuple(f"first-{size}" for size in sizes if seed < size)
                found = realistic(seed).model_copy(update={"tags": tags})
                request = Request.model_validate(found.model_dump(include=set(Request.model_fields)))
                begun, worked = time.perf_counter(), time.process_time()
                await opened.runs.start(found.id, request)
                await opened.runs.finish(found.id, "finished", found)
                spent, cpu = spent + time.perf_counter() - begun, cpu + time.process_time() - worked
        return Measured(spent, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)

    return asyncio.run(store())


def run(database: Path, *command: object, codes: Sequence[int] = (0,)) -> Measured:
    """Run `agentflow traces …` and measure it.

    Raises:
        RuntimeError: it ended with another status than one of `codes`.
    """
    words = [sys.executable, "-m", "agentflow", "--set", f"storage.url={database}", "traces", *map(str, command)]
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(words, stdout=told, stderr=subprocess.STDOUT, cwd=database.parent)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begun
        if process.returncode not in codes:
            told.seek(0)
            raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}: {told.read()[-2000:]}")
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of the files in a folder."""
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.rglob("*.parquet"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--large", action="store_true", help=f"also export {LARGE:,}, for half an hour")
    given = parser.parse_args()
    sizes = sorted({min(1000, given.n), given.n, *([LARGE] if given.large else [])})
    table = Table("command", "traces", "seconds", "CPU s", "a minute", "peak MB", "MB")
    with tempfile.TemporaryDirectory() as name, Console().status("filling") as status:
        place = Path(name)
        database = place / "runs.db"

        def row(what: str, size: int, took: Measured, out: Path | None) -> None:
            figures = [f"{size:,}", f"{took.seconds:.1f}", f"{took.cpu:.1f}", f"{size / took.seconds * 60:,.0f}"]
            table.add_row(what, *figures, f"{took.peak / 1e6:,.0f}", f"{size_of(out) / 1e6:,.0f}" if out else "")
            status.update(f"after {what} of {size:,}")

        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            row("runs stored", sizes[-1], pool.submit(fill, str(database), sizes[-1], sizes).result(), database)
        for size in sizes:
            for ending, kind in KINDS.items():
                out = place / f"traces-{size}{ending}"
                row(f"export, {kind}", size, run(database, "export", out, "--tag", f"first-{size}"), out)
        for ending, kind in KINDS.items():
            new = place / f"imported{ending}.db"
            row(f"import, {kind}", given.n, run(new, "import", place / f"traces-{given.n}{ending}"), new)
        for command, codes in (("stats", (0,)), ("validate", (0, 1))):
            row(command, given.n, run(database, command, "--tag", f"first-{given.n}", codes=codes), None)
    Console().print(table)


if __name__ == "__main__":
    main()
