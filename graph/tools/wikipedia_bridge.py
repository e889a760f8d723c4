"""The `wikipedia` package, made fit for a server.

The package keeps its server, language, name and a cache that never ends in module globals, and waits forever for an
answer. `private_wikipedia` gives a copy of its module that shares nothing, and whose requests go through a `Bridge`: an
httpx client on the event loop, with a deadline, retries and a proper User-Agent, that ends them when the call ends.
"""

import asyncio
import concurrent.futures
import importlib.util
import threading
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import httpx

from graph.errors import ToolError
from graph.tools.retries import RetryableStatusError, raise_if_retryable, retrying


class Bridge:
    """Requests made in a thread by the `wikipedia` package, carried out by the client on the event loop."""

    def __init__(self, client: httpx.AsyncClient, seconds: float) -> None:
        self._client = client
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pending: set[concurrent.futures.Future[dict[str, Any]]] | None = set()

    def get(self, url: str, params: dict[str, Any], headers: dict[str, str]) -> SimpleNamespace:
        """Stand in for `requests.get`; what it returns has the one method that the package calls."""
        future = self._submit(self._fetch(url, params, headers))
        data = future.result()
        return SimpleNamespace(json=lambda: data)

    def close(self) -> None:
        """Cancel what is under way: the threads that wait for it end, and can ask for nothing more."""
        with self._lock:
            pending, self._pending = self._pending or set(), None
        for future in pending:
            future.cancel()

    def _submit(self, work: Coroutine[Any, Any, dict[str, Any]]) -> "concurrent.futures.Future[dict[str, Any]]":
        with self._lock:
            if self._pending is None:
                work.close()
                raise concurrent.futures.CancelledError
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._pending.add(future)
        return future

    async def _fetch(self, url: str, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        host = httpx.URL(url).host
        try:
            async for attempt in retrying(self._seconds):
                with attempt:
                    response = await self._client.get(url, params=params, headers=headers)
                    raise_if_retryable(response)
            response.raise_for_status()
            data = response.json()
        except (RetryableStatusError, httpx.HTTPStatusError) as error:
            status = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else error
            raise ToolError(f"{host} refuses the request ({status}): try later, or use another tool.") from error
        except httpx.HTTPError as error:
            raise ToolError(f"{host} cannot be reached: use another tool.") from error
        except ValueError as error:
            raise ToolError(f"{host} does not answer with JSON: use another tool.") from error
        if isinstance(data, dict) and isinstance(failure := data.get("error"), dict):
            raise ToolError(f"{host} cannot search for that ({failure.get('info', 'unknown error')}): use other words.")
        if not isinstance(data, dict) or not isinstance(data.get("query"), dict):
            raise ToolError(f"{host} found nothing it could list: use other words, or another tool.")
        return data


def wikipedia_error() -> type[Exception]:
    """The base of the `wikipedia` package's exceptions."""
    from wikipedia.exceptions import WikipediaException  # not at the top: the package takes a while to import

    error: type[Exception] = WikipediaException
    return error


def private_wikipedia(api_url: str, user_agent: str, bridge: Bridge) -> Any:
    """A copy of the `wikipedia` package's module that shares no state with any other."""
    spec = importlib.util.find_spec("wikipedia.wikipedia")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.API_URL = api_url
    module.USER_AGENT = user_agent
    module.requests = bridge
    soup = module.BeautifulSoup
    module.BeautifulSoup = lambda html: soup(html, "html.parser")  # the package names no parser, which warns
    return module
