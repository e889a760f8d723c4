import asyncio
import binascii

import pytest

from graph.sandbox.child.figures import FIGURE_BYTES, FIGURES, SIGNATURE
from graph.sandbox.child.script import VALUE_CHARACTERS
from graph.sandbox.records import Records


def _line(kind: bytes, content: bytes = b"") -> bytes:
    return b"\n" + kind + b" " + binascii.b2a_base64(content, newline=False) + b"\n"


async def _read(*parts: bytes) -> Records:
    stream = asyncio.StreamReader()
    for part in parts:
        stream.feed_data(part)
    stream.feed_eof()
    records = Records()
    await records.read(stream)
    assert records.answered.is_set()
    return records


async def test_records_of_a_run() -> None:
    records = await _read(
        _line(b"ready"), _line(b"value", b"42"), _line(b"figure", SIGNATURE), _line(b"limit", b"memory")
    )
    assert (records.stands, records.failure, records.value) == (True, None, "42")
    assert (records.figures, records.limit) == ([SIGNATURE], "memory")


async def test_records_of_a_sandbox_that_could_not_be_built() -> None:
    records = await _read(_line(b"failed", b"unshare: no"))
    assert (records.stands, records.failure) == (False, "unshare: no")


async def test_nothing_counts_before_the_sandbox_stands() -> None:
    records = await _read(_line(b"value", b"42"))
    assert (records.stands, records.value) == (False, None)


@pytest.mark.parametrize(
    "junk", [b"\xff\xfe\n", b"value !!!\n", b"value A\n", b"limit bm9uZQ==\n", b"\n" * 1000, b"figure"]
)
async def test_forged_lines_spoil_nothing(junk: bytes) -> None:
    records = await _read(_line(b"ready"), junk, _line(b"value", b"42"), junk)
    assert (records.value, records.limit, records.figures) == ("42", None, [])


async def test_a_late_failure_is_a_forgery() -> None:
    assert (await _read(_line(b"ready"), _line(b"failed", b"x"))).failure is None


async def test_more_than_the_limits_is_dropped() -> None:
    figures = [_line(b"figure", SIGNATURE)] * (FIGURES + 5)
    records = await _read(
        _line(b"ready"), _line(b"figure", SIGNATURE + bytes(FIGURE_BYTES)), _line(b"figure", b"<svg>"), *figures
    )
    assert records.figures == [SIGNATURE] * FIGURES


async def test_long_value_is_cut() -> None:
    records = await _read(_line(b"ready"), _line(b"value", b"9" * (VALUE_CHARACTERS + 1)))
    assert records.value == "9" * VALUE_CHARACTERS
    assert records.value_truncated


async def test_endless_records_are_bounded() -> None:
    stream, records = asyncio.StreamReader(), Records()
    reading = asyncio.create_task(records.read(stream))
    stream.feed_data(_line(b"ready"))
    for _ in range(1000):
        stream.feed_data(b"z" * 65536)
        await asyncio.sleep(0)
    stream.feed_data(_line(b"value", b"42"))
    stream.feed_eof()
    await reading
    assert records.value is None
