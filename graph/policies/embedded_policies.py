"""Policies of a planner on the embedded engine: each has an engine of its own, started when it is first used."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from langchain_core.language_models import BaseChatModel

from graph.engine import EngineInfo, LocalSettings
from graph.errors import ConfigError, SetupError
from graph.policies.choice import Choice, OnNotice
from graph.policies.embedded import policy_engine
from graph.policies.policy import Policy
from graph.policies.route import Route


class EmbeddedPolicies:
    """A `PolicySource` of the embedded engine."""

    def __init__(
        self,
        choice: Choice,
        settings: LocalSettings,
        open_chat: Callable[[EngineInfo], BaseChatModel],
        *,
        model: str,
        on_notice: OnNotice | None = None,
    ) -> None:
        """`model` is the name of the model as it is; `open_chat` opens a client of a policy's engine."""
        self._choice = choice
        self._settings = settings
        self._open_chat = open_chat
        self._model = model
        self._on_notice = on_notice
        self._chats: dict[EngineInfo, BaseChatModel] = {}

    @asynccontextmanager
    async def route(self) -> AsyncIterator[Route]:
        """As PolicySource."""
        engine, policy = await self._engine()
        if engine is None or policy is None:
            yield Route(self._model, None)
            return
        if engine not in self._chats:
            self._chats[engine] = self._open_chat(engine)
        yield Route(engine.model, policy.full_name, self._chats[engine], {"id_slot": 0})

    def lost(self, route: Route) -> None:
        """As PolicySource; every call looks for its engine anyway."""

    async def _engine(self) -> tuple[EngineInfo | None, Policy | None]:
        policy = self._choice.wanted()
        if policy is None:
            return None, None
        directory = self._choice.registry.path(policy.full_name)
        try:
            return await policy_engine(self._settings, policy, directory, on_progress=self._on_notice), policy
        except SetupError:
            raise  # the engine, not the policy
        except ConfigError as error:
            self._choice.unusable(policy, str(error).rstrip("."))
            return None, None
