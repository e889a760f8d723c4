"""How strongly a run is isolated."""

from enum import StrEnum


class Level(StrEnum):
    """Isolation levels, strongest first."""

    BUBBLEWRAP = "bubblewrap"
    """Namespaces set up by bwrap, and a filter of system calls."""
    NAMESPACES = "namespaces"
    """The same namespaces set up from Python, the filter, and a Landlock domain."""
    RLIMITS_ONLY = "rlimits-only"
    """Limits, an empty environment, the filter and a sure end. Files are closed only where the kernel has Landlock, and
    what other programs of the user do can be seen. Only ever by the user's choice."""
