"""What the launcher tells its child process, as one argument of the command line. Nothing in it is secret."""

import ast


class Setup:
    """How to isolate and limit one run."""

    def __init__(
        self,
        *,
        level: str,
        parent: int,
        results: int,
        home: str,
        readable: list[str],
        links: dict[str, str],
        site: list[str],
        cpu_seconds: int,
        memory_mb: int,
        tasks: int,
        drop_to: int | None,
        command: list[str],
    ) -> None:
        self.level = level
        self.parent = parent
        """Process id of the launcher: the supervisor ends when it is no longer the parent."""
        self.results = results
        """Descriptor of the pipe that takes the records of `report`."""
        self.home = home
        """The private directory, as seen inside."""
        self.readable = readable
        """Host paths that stay visible, read-only, none inside another."""
        self.links = links
        """Symbolic links to make, by name."""
        self.site = site
        """Directories of installed packages, for `sys.path`."""
        self.cpu_seconds = cpu_seconds
        self.memory_mb = memory_mb
        """Address space of each process, and resident memory of all together."""
        self.tasks = tasks
        """Processes and threads that the limit allows, those that the user has already included where they count."""
        self.drop_to = drop_to
        """User and group id that a root launcher's run takes, or None to stay who we are."""
        self.command = command
        """Bubblewrap with all arguments; empty at the other levels and inside."""

    def to_argument(self) -> str:
        """Return the text that `from_argument` reads."""
        return repr(vars(self))

    @classmethod
    def from_argument(cls, text: str) -> "Setup":
        """Read what `to_argument` wrote."""
        return cls(**ast.literal_eval(text))
