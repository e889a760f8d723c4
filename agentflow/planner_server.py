"""The server of the planner, where it can be told which policies to hold."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx

    from graph.config import FlowConfig
    from graph.policies.vllm_control import VLLMControl

_SECONDS = 60.0
_SERVER_ERROR = 500


@asynccontextmanager
async def planner_server(config: "FlowConfig", url: str | None) -> "AsyncIterator[VLLMControl | None]":
    """Open the planner's server, or the one at `url`; it is not said that it answers.

    Yields:
        None where it takes no policies while it runs: see `why_none`.

    Raises:
        ConfigError: its key is not set, or refused; or `url` is no vLLM server's, or no address.
        ModelError: it answers with an error of its own, as while it starts.
    """
    import httpx

    from graph.errors import ConfigError
    from graph.policies.vllm_control import VLLMControl

    planner = config.models.of("planner")
    address = _address(url) if url is not None else _checked(planner.base_url, "models.planner.base_url")
    if address is None:
        yield None
        return
    name = planner.api_key_env
    key = os.environ.get(name) if name else None
    if name and not key:
        raise ConfigError(f"The variable {name} is not set: put the key for {planner.model} into it or .env.")
    async with httpx.AsyncClient(timeout=_SECONDS) as http:
        try:
            takes = await _takes_policies(address, key, http, key_name=name, named=url is not None)
        except ConfigError as error:
            if not isinstance(error.__cause__, httpx.NetworkError | httpx.TimeoutException):
                raise
            takes = True  # when it is there again
        yield VLLMControl(address, http, key=key) if takes else None


async def _takes_policies(
    address: str, key: str | None, http: "httpx.AsyncClient", *, key_name: str | None, named: bool
) -> bool:
    """Whether vLLM answers at `address`; `named`: where it was named for this command, it has to."""
    from graph.errors import ConfigError, ModelError
    from graph.models.server import probe_server

    info = await probe_server(address, key, http, key_name=key_name)
    if info.kind == "vllm":
        return True
    if info.status >= _SERVER_ERROR:
        raise ModelError(f"The server at {address} answers {info.status}: try again when it is well.")
    if named:
        raise ConfigError(f"The server at {address} is not vLLM: correct --server.")
    return False


def _address(url: str) -> str:
    """Return the OpenAI interface of the server that `--server` names.

    Raises:
        ConfigError: it is no address, or holds a key.
    """
    from graph.errors import ConfigError
    from graph.secret_names import address_holds_secret

    try:
        holds = address_holds_secret(url)
    except ValueError as error:
        raise ConfigError("--server takes an address such as http://127.0.0.1:8000/v1.") from error
    if holds:
        raise ConfigError("The address in --server holds a key: name its variable in models.planner.api_key_env.")
    _checked(url, "--server")
    return url if url.rstrip("/").endswith("/v1") else f"{url.rstrip('/')}/v1"


def _checked(url: str | None, setting: str) -> str | None:
    """Return `url`; a mistyped one would read as a server that is not running."""
    from graph.errors import ConfigError

    parts = urlsplit(url or "")
    if url is not None and (parts.scheme not in {"http", "https"} or not parts.hostname):
        raise ConfigError(f"{setting} takes an address such as http://127.0.0.1:8000/v1, not {url}.")
    return url


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
