"""Policies of a planner that vLLM serves: adapters by name, full weights by the version that the server tells."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from graph.errors import ModelError
from graph.policies.choice import Choice
from graph.policies.fit import misfit
from graph.policies.held_weights import HeldWeights
from graph.policies.policy import Policy
from graph.policies.route import Route
from graph.policies.vllm_control import VLLMControl
from graph.policies.weights import BASE_VERSION


class ServedPolicies:
    """A `PolicySource` of one vLLM server."""

    def __init__(self, choice: Choice, control: VLLMControl, weights: HeldWeights, *, base: str, root: str) -> None:
        """`base` is the name that the server knows the model by, `root` its directory or name on the hub."""
        self._choice = choice
        self._control = control
        self._weights = weights
        self._base = base
        self._root = root
        self._loaded: set[str] = set()
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def route(self) -> AsyncIterator[Route]:
        """As PolicySource."""
        policy = self._fitting()
        if policy is not None and policy.kind == "adapter":
            await self._load(policy)
        wanted = policy.full_name if policy is not None and policy.kind == "weights" else BASE_VERSION
        name = self._base if policy is None or policy.kind == "weights" else policy.full_name
        async with self._weights.during() as held:
            if held != wanted:
                raise _other_weights(held, wanted)
            yield Route(name, self._base if policy is None else policy.full_name)

    def lost(self, route: Route) -> None:
        """As PolicySource."""
        self._loaded.discard(route.model)

    def _fitting(self) -> Policy | None:
        policy = self._choice.wanted()
        if policy is None:
            return None
        if why := misfit(policy, self._root):
            self._choice.unusable(policy, why)
            return None
        return policy

    async def _load(self, policy: Policy) -> None:
        name = policy.full_name
        if name in self._loaded:
            return
        async with self._lock:
            if name not in self._loaded:
                await self._control.load_adapter(name, self._choice.registry.path(name))
                self._loaded.add(name)


def _other_weights(held: str, wanted: str) -> ModelError:
    """Transient, as it is also seen in the moment between a push and its promotion."""
    holds = "its own weights" if held == BASE_VERSION else f"the weights of {held}"
    asked = "the model as it is" if wanted == BASE_VERSION else f"the policy {wanted}"
    load = "base" if wanted == BASE_VERSION else wanted
    return ModelError(
        f"The planner's server holds {holds}, but {asked} was asked for: run `agentflow policies load {load}`, or "
        "set policies.use.",
        transient=True,
    )
