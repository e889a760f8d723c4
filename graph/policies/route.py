"""Which policy answers the planner's next call.

The choice is made for each call, so that a promotion by another process holds from the next call on. What a call
records is the policy that its tokens came from: the name that the server was asked for, or the version of the weights
that it held from before the call until after it.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel


@dataclass(frozen=True)
class Route:
    """Where one call goes."""

    model: str
    """The name that the server is asked for."""
    policy: str | None
    """What the call records; None where the server knows no policies."""
    chat: BaseChatModel | None = None
    """The client of another server than the role's own."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the request body that this server needs."""


class PolicySource(Protocol):
    """The policies of one opened planner."""

    def route(self) -> AbstractAsyncContextManager[Route]:
        """Hold the route of one call while it is made.

        Raises:
            ConfigError: the policy that is asked for is not there or is no policy of this model.
            ModelError: the server does not load it, or held other weights after the call than before.
        """

    def lost(self, route: Route) -> None:
        """Take note that the server does not know this route's policy any more: the next call loads it again."""
