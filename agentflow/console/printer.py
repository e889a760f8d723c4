"""What every way of printing a run can do."""

from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from graph.events import Event  # `--help` needs no pydantic


class Printer(Protocol):
    """Takes a run's events as they happen."""

    run: str | None
    """The run's id, once it has one."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""

    def opening(self, question: str | None, /) -> None:
        """Show at once that something happens: what comes next takes a moment."""

    def __call__(self, event: "Event", /) -> None:
        """Show an event."""

    def broke_off(self, stop: str, sentence: str, /) -> None:
        """End what is shown, as no event of the run will: `stop` is CANCELLED or FAILED."""
