"""The first and the last event of a run."""

from collections.abc import Callable

from graph.events import Event, EventKind
from graph.trace import Trajectory

OnEvent = Callable[[Event], None]
"""Called with each event of a run as it happens."""

_TOLD_AT_THE_END = {"id", "stop", "answer", "solution", "seconds", "error"}


def tell_start(on_event: OnEvent | None, run: str, question: str, *, resumed: bool) -> None:
    """Tell the listener, if there is one, which run starts or goes on."""
    if on_event is not None:
        on_event(Event.of(EventKind.RUN, {"id": run, "question": question, "resumed": resumed}))


def tell_end(on_event: OnEvent | None, trajectory: Trajectory) -> None:
    """Tell the listener, if there is one, how a run ended."""
    if on_event is not None:
        on_event(Event.of(EventKind.DONE, trajectory.model_dump(mode="json", include=_TOLD_AT_THE_END)))
