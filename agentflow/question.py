"""The question, from the command line or from standard input."""

import sys

from graph.errors import ConfigError

_MOST_BYTES = 400_000
"""More is not read: it would be refused anyway."""


def read_question(argument: str) -> str:
    """Return the question that `argument` is, or that standard input holds when it is `-`.

    Raises:
        ConfigError: it is empty, too long or not text.
    """
    text = _standard_input() if argument == "-" else argument
    if not text.strip():
        raise ConfigError("The question is empty: write what you want to know.")
    return text


def _standard_input() -> str:
    if sys.stdin is None:
        raise ConfigError("Standard input is closed: give the question as an argument.")
    try:
        data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"Standard input cannot be read ({error.strerror}).") from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"The question has more than {_MOST_BYTES:,} bytes: shorten it.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"The question on standard input is not UTF-8 text (byte {error.start + 1}).") from error
