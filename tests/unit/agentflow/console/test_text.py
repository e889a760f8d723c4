import pytest

from agentflow.console.text import clean, one_line, seconds, shorten


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("\x1b]0;never ended", "0;never ended"),
        ("\x9b2Jgone \x9d0;title\x9c!", "gone !"),
        ("\x1bcreset \x1b(0box", "reset box"),
        ("a\x08b\x00c\x7fd", "abcd"),
        ("tab\tline\nnext", "tab\tline\nnext"),
        ("one\r\ntwo\rthree\u2028four", "one\ntwo\nthree\nfour"),
        ("abc\u202etxt.exe\u2066", "abctxt.exe"),
        ("\ufeffbom \U000e0041tag", "bom tag"),
        ("half \ud800 of one", "half \ufffd of one"),
        ("naïve 日本 👩\u200d💻 नमस्\u200dते", "naïve 日本 👩\u200d💻 नमस्\u200dते"),
        ("[bold]2**10[/bold]", "[bold]2**10[/bold]"),
    ],
)
def test_clean(given: str, shown: str):
    assert clean(given) == shown


def test_one_line():
    assert one_line(" a\n\n b\x1b[31m\tc ") == "a b c"


def test_shorten_says_what_is_left_out():
    assert shorten("abc\n", lines=1, chars=10) == "abc"
    assert shorten("1\n2\n3", lines=2, chars=10) == "1\n2 … (2 more characters)"
    assert shorten("x" * 5_000, lines=2, chars=1_000) == "x" * 1_000 + " … (4,000 more characters)"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.04, "0.0 s"), (99.94, "99.9 s"), (100.0, "1 min 40 s"), (7200, "120 min 0 s")]
)
def test_seconds(value: float, shown: str):
    assert seconds(value) == shown
