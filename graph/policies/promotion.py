"""A promotion with the planner's server in view: it holds a version before calls are sent to it.

The files are checked, the server loads the version, `promoted.json` is replaced, and after a grace the version before
it is unloaded: a process that read the old name a moment ago must still find it. Whatever fails before the replacement
leaves the old version promoted and served. Full weights take the place of the server's own, so that adapters, which
belong to those, have to go first, and the server's own weights come back before an adapter.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

from graph.errors import AgentFlowError, ConfigError, ModelError
from graph.policies.fit import misfit
from graph.policies.policy import Policy
from graph.policies.registry import PolicyRegistry
from graph.policies.vllm_control import VLLMControl
from graph.policies.weights import BASE_VERSION, LOADING, push_weights, serving_version

OnNotice = Callable[[str], None]
GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class Promoted:
    """What a promotion or a rollback did."""

    before: str | None
    """None for the model as it is."""
    now: str | None
    loaded: bool
    """Whether the server holds it; False where there is no server, or none that answers."""
    unloaded: tuple[str, ...] = ()


async def promote(
    registry: PolicyRegistry,
    full_name: str | None,
    *,
    server: VLLMControl | None,
    grace: float = GRACE_SECONDS,
    keep_old: bool = False,
    on_notice: OnNotice | None = None,
) -> Promoted:
    """Have every process use this version from its next call on, once the planner's server holds it.

    Args:
        registry: where it is.
        full_name: the version; None for the model as it is.
        server: the planner's; None where it loads nothing while it runs.
        grace: seconds until the version before is unloaded.
        keep_old: leave that loaded.
        on_notice: called with a sentence about what was left out.

    Raises:
        ConfigError: there is no such version, its files were changed, or it is none of the server's model.
        ModelError: the server refused it. What was promoted before still is, and is served.
        StorageError: the registry cannot be written. As with ModelError.
    """
    return await _switch(
        registry,
        full_name,
        lambda: registry.promote(full_name),
        server=server,
        grace=None if keep_old else grace,
        on_notice=on_notice or _unheard,
    )


async def roll_back(
    registry: PolicyRegistry,
    *,
    server: VLLMControl | None,
    grace: float = GRACE_SECONDS,
    keep_old: bool = False,
    on_notice: OnNotice | None = None,
) -> Promoted:
    """Go back to what was promoted before. Arguments and errors as of `promote`.

    Raises:
        ConfigError: also where nothing was promoted before.
    """
    found = registry.promotions()

    def switch() -> str | None:
        registry.rollback(expected=found)
        return found.current

    return await _switch(
        registry,
        found.roll_back(registry.names()).current,
        switch,
        server=server,
        grace=None if keep_old else grace,
        on_notice=on_notice or _unheard,
    )


async def load(
    registry: PolicyRegistry, full_name: str | None, server: VLLMControl, *, on_notice: OnNotice | None = None
) -> None:
    """Have the server hold a version, whatever is promoted; None for its own weights.

    Raises:
        ConfigError: as `promote`; or the server holds what has to be unloaded first.
        ModelError: the server refused it or does not answer. What it held it still holds.
    """
    policy = await _checked(registry, full_name)
    await _check_fits(policy, server)
    held, wanted = await serving_version(server), _weights_of(policy)
    if policy is not None and policy.kind == "adapter":
        if held not in {None, wanted}:
            raise ConfigError(
                f"The server holds the weights of {held}, to which {policy.full_name} does not belong: load base first."
            )
        await server.load_adapter(policy.full_name, registry.path(policy.full_name))
    elif held != wanted and (held is not None or wanted != BASE_VERSION):
        await _push(registry, wanted, server, on_notice or _unheard)


async def unload(full_name: str, server: VLLMControl) -> None:
    """Unload an adapter; calls under way finish.

    Raises:
        ConfigError: the server does not hold it.
        ModelError: it does not answer.
    """
    held = await server.adapters()
    if full_name not in held:
        there = ", ".join(sorted(held)) or "no adapter"
        raise ConfigError(f"{full_name} is not loaded at {server.base_url}, which holds {there}.")
    await server.unload_adapter(full_name)


async def _switch(
    registry: PolicyRegistry,
    full_name: str | None,
    switch: Callable[[], str | None],
    *,
    server: VLLMControl | None,
    grace: float | None,
    on_notice: OnNotice,
) -> Promoted:
    policy = await _checked(registry, full_name)
    if server is not None and not await _answers(server):
        later = "the next question loads it" if policy is None or policy.kind == "adapter" else "load it when it runs"
        on_notice(f"The server at {server.base_url} does not answer; {later}.")
        server = None
    if server is None:
        return Promoted(switch(), full_name, loaded=False)
    await _check_fits(policy, server)
    handover = _Handover(registry, server, on_notice)
    try:
        await handover.load(policy)
        before = switch()
    except BaseException as error:
        await handover.undo(error)
        raise
    unloaded = list(handover.freed)
    if grace is not None and before != full_name:
        try:
            await asyncio.sleep(grace)
        except asyncio.CancelledError:
            on_notice(f"{full_name or 'base'} is promoted; what was before is unloaded at once.")
            await _retire(registry, before, policy, server, on_notice)
            raise
        unloaded += await _retire(registry, before, policy, server, on_notice)
    return Promoted(before, full_name, loaded=True, unloaded=tuple(dict.fromkeys(unloaded)))


class _Handover:
    """What was changed on a server for a promotion, which is undone where that fails."""

    def __init__(self, registry: PolicyRegistry, server: VLLMControl, on_notice: OnNotice) -> None:
        self._registry = registry
        self._server = server
        self._on_notice = on_notice
        self.freed: list[str] = []
        """Adapters that were unloaded for other weights."""
        self._weights: str | None = None
        """What was held before other weights were pushed; None where none were."""
        self._loaded: str | None = None

    async def load(self, policy: Policy | None) -> None:
        """Have the server answer as this version."""
        held, wanted = await serving_version(self._server), _weights_of(policy)
        if held != wanted and (held is not None or wanted != BASE_VERSION):
            if held is None:  # refused, with what to do
                await _push(self._registry, wanted, self._server, self._on_notice)
            await self._exchange(wanted)
            self._weights = BASE_VERSION if held == LOADING else held
        if policy is not None and policy.kind == "adapter":
            there = policy.full_name in await self._server.adapters()
            await self._server.load_adapter(policy.full_name, self._registry.path(policy.full_name))
            self._loaded = None if there else policy.full_name

    async def undo(self, because: BaseException) -> None:
        """Bring back what the server held; where that fails too, the error says so."""
        try:
            if self._loaded is not None:
                await self._server.unload_adapter(self._loaded)
            if self._weights is not None:
                await self._exchange(self._weights)
            for name in self.freed:
                await self._server.load_adapter(name, self._registry.path(name))
        except AgentFlowError as error:
            because.add_note(f"The server at {self._server.base_url} could not be given back what it held: {error}")

    async def _exchange(self, weights: str) -> None:
        """Push weights once the adapters are gone; what is still promoted comes back with any call, and goes again."""
        again = AsyncRetrying(retry=retry_if_exception_type(ConfigError), stop=stop_after_attempt(3), reraise=True)
        async for attempt in again:
            with attempt:
                for name in await _ours(self._registry, self._server):
                    await self._server.unload_adapter(name)
                    self.freed += [name] if name not in self.freed else []
                await _push(self._registry, weights, self._server, self._on_notice)


async def _checked(registry: PolicyRegistry, full_name: str | None) -> Policy | None:
    return None if full_name is None else await asyncio.to_thread(registry.verify, full_name)


async def _answers(server: VLLMControl) -> bool:
    try:
        await server.base_models()
    except ModelError as error:
        if error.transient:
            return False
        raise
    return True


async def _check_fits(policy: Policy | None, server: VLLMControl) -> None:
    root = next(iter((await server.base_models()).values()))
    if policy is not None and (why := misfit(policy, root)):
        raise ConfigError(f"{policy.full_name} cannot be loaded at {server.base_url}: {why}.")


def _weights_of(policy: Policy | None) -> str:
    """Return the weights that this version needs on the server."""
    return policy.full_name if policy is not None and policy.kind == "weights" else BASE_VERSION


async def _push(registry: PolicyRegistry, weights: str, server: VLLMControl, on_notice: OnNotice) -> None:
    await push_weights(
        server,
        None if weights == BASE_VERSION else weights,
        path_of=lambda name: registry.path(registry.get(name).full_name),
        lock=registry.directory / ".push.lock",
        on_notice=on_notice,
    )


async def _ours(registry: PolicyRegistry, server: VLLMControl) -> list[str]:
    """Return the registry's versions among the adapters that the server holds."""
    known = set(registry.names())
    held = await server.adapters()
    return [name for name, root in held.items() if name in known and root == str(registry.path(name).resolve())]


async def _retire(
    registry: PolicyRegistry, before: str | None, policy: Policy | None, server: VLLMControl, on_notice: OnNotice
) -> list[str]:
    """Unload what a promotion made superfluous, unless it is promoted again already."""
    gone = []
    try:
        weights = policy is not None and policy.kind == "weights"
        for name in await _ours(registry, server):
            if (name == before or weights) and name != registry.promoted():
                await server.unload_adapter(name)
                gone.append(name)
    except ModelError as error:  # the promotion holds all the same
        on_notice(f"What was promoted before may still be loaded: {error}")
    return gone


def _unheard(_notice: str) -> None:
    pass
