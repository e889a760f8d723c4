"""Which weights a vLLM server answers with, for as long as a call takes."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from graph.errors import ModelError
from graph.policies.route import Route
from graph.policies.vllm_control import VLLMControl
from graph.policies.weights import BASE_VERSION, LOADING, serving_mark, version_of

_ASK_AGAIN = 10.0
"""Seconds for which a server without the endpoint is taken at its word: it may be restarted with it."""
_POLL_SECONDS = 0.2


class _ExchangeError(ModelError):
    """The server is being given other weights."""


class HeldWeights:
    """Watches one server."""

    def __init__(self, control: VLLMControl, *, patience: float = 120.0) -> None:
        """`patience` is how many seconds an exchange of the weights may take before a call gives up."""
        self._control = control
        self._patience = patience
        self._fixed_until = 0.0

    @asynccontextmanager
    async def during(self) -> AsyncIterator[str]:
        """Hold the version of the weights that the block's call is answered with, once no exchange is under way.

        Raises:
            ModelError: they were replaced meanwhile, so that nobody can tell which answered; or an exchange has begun
                that does not end.
        """
        before = await self._settled()
        yield version_of(before)
        if await self._mark() != before:
            raise ModelError("The weights of the model server were replaced during a call.", transient=True)

    async def _settled(self) -> str:
        waiting = AsyncRetrying(
            retry=retry_if_exception_type(_ExchangeError),
            stop=stop_after_delay(self._patience),
            wait=wait_fixed(_POLL_SECONDS),
            reraise=True,
        )
        async for attempt in waiting:
            with attempt:
                mark = await self._mark()
                if version_of(mark) == LOADING:
                    raise _ExchangeError(
                        f"The server at {self._control.base_url} is being given other weights, or that was broken off: "
                        "try again, or have it load a version with `agentflow policies promote`.",
                        transient=True,
                    )
        return mark

    async def _mark(self) -> str:
        """Return the server's mark; one that can be given no weights holds its own."""
        if time.monotonic() < self._fixed_until:
            return BASE_VERSION
        mark = await serving_mark(self._control)
        if mark is None:
            self._fixed_until = time.monotonic() + _ASK_AGAIN
        return mark or BASE_VERSION


class ServedBase:
    """A `PolicySource` of a role that follows no promotion: its calls record the weights that were in force."""

    def __init__(self, weights: HeldWeights, base: str) -> None:
        """`base` is the name that the server knows the model by."""
        self._weights = weights
        self._base = base

    @asynccontextmanager
    async def route(self) -> AsyncIterator[Route]:
        """As PolicySource."""
        async with self._weights.during() as held:
            yield Route(self._base, self._base if held == BASE_VERSION else held)

    def lost(self, route: Route) -> None:
        """As PolicySource; the base model is always there."""
