"""How strongly a run is isolated."""

from enum import StrEnum


class Level(StrEnum):
    """Isolation levels, strongest first."""

    BUBBLEWRAP = "bubblewrap"
    """Namespaces set up by bwrap, and a filter of system calls."""
    NAMESPACES = "namespaces"
    """The same namespaces set up from Python, the filter, and a Landlock domain."""
    RLIMITS_ONLY = "rlimits-only"
    """Limits, an empty environment and a sure end; files and network stay open. Only ever by the user's choice."""
