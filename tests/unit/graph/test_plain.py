"""Text and JSON that every store takes."""

import enum
import json
import math

from hypothesis import given
from hypothesis import strategies as st

from graph.plain import plain_json, plain_text
from graph.storage.serializer import StrictSerializer


def test_surrogates_and_nul():
    assert plain_text("a\x00b\ud83dc\ud83d\ude00\udcff") == "ab\ufffdc\U0001f600\ufffd"
    assert plain_text("Größe 计算 \U0001f600") == "Größe 计算 \U0001f600"


def test_what_json_cannot_hold_becomes_text():
    class Odd:
        def __str__(self):
            return "odd"

    value = plain_json({1: (1, 2.5, None, True), "s": {3}, "big": 2**70, "inf": math.inf, "odd": Odd(), "b": b"ab"})
    assert value == {
        "1": [1, 2.5, None, True],
        "s": [3],
        "big": str(2**70),
        "inf": "inf",
        "odd": "odd",
        "b": "ab",
    }


def test_a_number_of_ten_thousand_digits():
    assert plain_json(10**10_000).startswith("0x")


def test_what_holds_itself_is_finite():
    ring: list = [1]
    ring.append(ring)
    plain = plain_json({"ring": ring})
    assert plain["ring"][0] == 1
    assert "left out" in plain["ring"][1]


def test_what_is_nested_too_deeply_or_too_large_is_cut():
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    assert "left out" in json.dumps(plain_json(deep))
    bush: list = ["leaf"]
    for _ in range(60):
        bush = [bush, bush]  # 2**60 leaves
    assert len(json.dumps(plain_json(bush))) < 20_000_000
    assert len(plain_json(list(range(300_000)))) <= 100_001


def test_objects_that_cannot_be_looked_at():
    class Shy:
        def __str__(self):
            raise SystemExit(3)

    class Level(enum.IntEnum):
        HIGH = 3

    plain = plain_json({"shy": Shy(), Shy(): 1, "level": Level.HIGH})
    assert plain["shy"] == "(Shy that cannot be shown as text)"
    assert type(plain["level"]) is int


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.characters(categories=["Cs"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_whatever_comes_out_can_be_stored(value):
    plain = plain_json(value)
    json.dumps(plain, allow_nan=False).encode()
    serializer = StrictSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(plain)) == plain
    assert plain_json(plain) == plain
