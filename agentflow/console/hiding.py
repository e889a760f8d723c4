"""Standard error without keys: what is told of an error, and its traceback even more, may be somebody else's words."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TextIO

    from graph.known_secrets import KnownSecrets


class HidingFile:
    """Writes to another file what is left without known secrets."""

    def __init__(self, file: "TextIO", secrets: "KnownSecrets") -> None:
        self._file = file
        self._secrets = secrets

    def write(self, text: str) -> int:
        """Write a text, without secrets that lie within it."""
        self._file.write(self._secrets.hide(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def hide_in_errors(secrets: "KnownSecrets") -> None:
    """Keep secrets out of whatever this process writes to standard error from here on."""
    if secrets and sys.stderr is not None:
        sys.stderr = HidingFile(sys.stderr, secrets)
