"""The server of the planner, where it can be told which policies to hold."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph.config import FlowConfig
    from graph.policies.vllm_control import VLLMControl

_SECONDS = 60.0


@asynccontextmanager
async def planner_server(config: "FlowConfig", url: str | None) -> "AsyncIterator[VLLMControl | None]":
    """Open the planner's server, or the one at `url`; it is not said that it answers.

    Yields:
        None where it takes no policies while it runs: see `why_none`.

    Raises:
        ConfigError: its key is not set, or refused.
    """
    import httpx

    from graph.errors import ConfigError
    from graph.models.server import probe_server
    from graph.policies.vllm_control import VLLMControl

    planner = config.models.of("planner")
    address = url or planner.base_url
    if address is None:
        yield None
        return
    name = planner.api_key_env
    key = os.environ.get(name) if name else None
    if name and not key:
        raise ConfigError(f"The variable {name} is not set: put the key for {planner.model} into it or .env.")
    async with httpx.AsyncClient(timeout=_SECONDS) as http:
        control: VLLMControl | None = VLLMControl(address, http, key=key)
        try:
            if (await probe_server(address, key, http, key_name=name)).kind != "vllm":
                control = None
        except ConfigError as error:
            if not isinstance(error.__cause__, httpx.TransportError):
                raise
        yield control


def why_none(config: "FlowConfig", url: str | None) -> str:
    """Return why the planner's server takes no policies, as part of a sentence."""
    planner = config.models.of("planner")
    if address := url or planner.base_url:
        return f"the server at {address} is not vLLM"
    if planner.embedded:
        return "the embedded engine loads a policy by itself when it is promoted"
    return f"{planner.model} is neither served by vLLM nor the embedded model"


async def held_policies(config: "FlowConfig", url: str | None) -> set[str] | None:
    """Return the versions that the server holds; None where it does not say, or there is none."""
    from graph.errors import AgentFlowError
    from graph.policies.weights import serving_version

    try:
        async with planner_server(config, url) as control:
            if control is None:
                return None
            return {*await control.adapters(), *filter(None, [await serving_version(control)])}
    except AgentFlowError:
        return None
