import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.sandbox.output import Excerpt


def _excerpt(limit: int, *parts: bytes) -> Excerpt:
    excerpt = Excerpt(limit)
    for part in parts:
        excerpt.add(part)
    return excerpt


def test_short_stream_is_whole() -> None:
    excerpt = _excerpt(10, b"abc", b"defg")
    assert (excerpt.text(), excerpt.truncated, excerpt.total) == ("abcdefg", False, 7)


def test_long_stream_keeps_head_and_tail() -> None:
    excerpt = _excerpt(10, b"0123456789", b"x" * 1000, b"abcdefghij")
    assert excerpt.text() == "01234\n[… 1010 bytes left out …]\nfghij"
    assert excerpt.truncated


def test_endless_stream_takes_no_more_memory_than_its_limit() -> None:
    excerpt = Excerpt(1000)
    for _ in range(1000):
        excerpt.add(b"y" * 1000)
        assert len(excerpt._head) + len(excerpt._tail) <= 2500
    assert excerpt.total == 1_000_000


@pytest.mark.parametrize("limit", range(2, 24, 2))
def test_cuts_leave_no_torn_characters(limit: int) -> None:
    assert "\ufffd" not in _excerpt(limit, ("aé€😀" * 20).encode()).text()


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_head_and_tail_are_the_streams_own(parts: list[bytes], half: int) -> None:
    excerpt = _excerpt(2 * half, *parts)
    data = b"".join(parts)
    whole = data.decode("utf-8", "replace").replace("\0", "\ufffd")
    if len(data) <= 2 * half:
        assert excerpt.text() == whole
    else:
        head, note, tail = excerpt.text().partition("\n[… ")
        left_out, _, tail = tail.partition(" bytes left out …]\n")
        assert note
        assert whole.startswith(head.rstrip("\ufffd"))
        assert whole.endswith(tail.lstrip("\ufffd"))
        assert len(data) - 2 * half <= int(left_out) <= len(data) - 2 * half + 6
