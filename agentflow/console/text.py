"""Text from models, tools and files, made fit for a terminal: it can show nothing but itself."""

import re
from datetime import datetime

_SEQUENCE = re.compile(
    r"""
    # CSI: colours, cursor, screen
    (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]
    # OSC, DCS and their like: titles, links, clipboard
    | (?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)
    # the rest
    | \x1b[ -/]*[0-~]
    """,
    re.VERBOSE,
)
_DROPPED = {
    *range(0x20),
    *range(0x7F, 0xA0),
    0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A),  # direction: text that reads otherwise
    0xFEFF, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080),  # invisible
} - {ord("\t"), ord("\n")}  # fmt: skip
_TABLE: dict[int, str | None] = {
    **dict.fromkeys(_DROPPED),
    0x2028: "\n",
    0x2029: "\n",
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}


def clean(text: str) -> str:
    """Return `text` without control sequences, control characters and marks that change how it reads."""
    return _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n").translate(_TABLE)


def one_line(text: str) -> str:
    """Return `text`, cleaned, with every run of blanks as one space."""
    return " ".join(clean(text).split())


def shorten(text: str, *, lines: int, chars: int) -> str:
    """Return the beginning of `text`, saying how much is left out."""
    kept = text[:chars].split("\n")[:lines]
    short = "\n".join(kept).rstrip()
    left_out = len(text.rstrip()) - len(short)
    return f"{short} … ({left_out:,} more characters)" if left_out > 0 else short


def short_id(run: str) -> str:
    """Return the beginning of a run's id that names it: ids begin with their time in milliseconds."""
    return run[:13]


def seconds(value: float) -> str:
    """Return a duration as people write it."""
    return f"{value:.1f} s" if value < 100 else f"{int(value) // 60} min {int(value) % 60} s"


def moment(at: float | None, *, to_seconds: bool = False) -> str:
    """Return a Unix time as people here write it; empty where it is unknown."""
    if at is None:
        return ""
    try:
        return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S" if to_seconds else "%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):  # files can hold any number
        return f"{at:g} s after 1970"
