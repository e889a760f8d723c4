"""What a run stores grows with its turns, not with their square; benchmarks/orchestration.py prints the figures."""

import pytest

from benchmarks.orchestration import MAX_BYTES, Bench, stored_bytes
from graph.records import StopReason


async def test_stored_bytes_grow_linearly(tmp_path):
    once, twice = await stored_bytes(40, tmp_path), await stored_bytes(80, tmp_path)
    assert once <= MAX_BYTES
    assert twice <= 2 * once


@pytest.mark.parametrize("turns", [300])
async def test_full_turns_to_the_last_never_meet_the_recursion_limit(turns, tmp_path):
    """Case 40: four steps a turn, and LangGraph's own limit ends none of them."""
    bench = Bench(turns)
    async with bench.runner(tmp_path / "runs.db") as runner:
        done = await bench.flow(runner)
    assert (done.stop, done.answer, done.error) == (StopReason.MAX_TURNS, "1,017,449", None)
