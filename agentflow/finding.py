"""One line of what `agentflow doctor` reports."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    subject: str
    state: Literal["ok", "note", "broken"]
    """`note`: something is missing that not every run needs."""
    text: str
    """What was found, and what to do unless it is `ok`."""
