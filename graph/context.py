"""The live objects of a run: what nodes use and state never holds."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.cache.base import BaseCache

from graph.config import Role
from graph.deadline import Deadline
from graph.events import Event, EventKind
from graph.known_secrets import NO_SECRETS, KnownSecrets
from graph.models.client import RoleModel
from graph.records import Record
from graph.tools.registry import Toolbox


@dataclass(frozen=True)
class Context:
    """LangGraph's runtime context of one run."""

    run: str
    """The trajectory's id."""
    models: Mapping[Role, RoleModel]
    toolbox: Toolbox
    deadline: Deadline
    """Of the turns; the generator may follow it."""
    repeating: int | None = None
    """The turn whose tool calls were under way when the run was interrupted: they may have been started before."""
    secrets: KnownSecrets = NO_SECRETS
    """Kept out of what tools are given and return."""
    cache: BaseCache[dict[str, object]] | None = None
    """Results of tool calls; None for no cache."""
    settle: Callable[[], Awaitable[None]] | None = None
    """Waits until every step so far is on disk; None where nothing is kept, or only the end."""
    on_event: Callable[[Event], None] | None = None
    """Called with each event as it happens, in the node's own step; None where nobody listens."""

    def tell(self, kind: EventKind, data: Record | Mapping[str, Any], *, turn: int = -1) -> None:
        """Tell the listener of an event."""
        if self.on_event is not None:
            self.on_event(Event.of(kind, data, turn=turn))
