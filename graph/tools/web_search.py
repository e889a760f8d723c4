"""The `web_search` tool: ranked results from Tavily."""

import asyncio
import os
from typing import Any, Literal

import httpx
from pydantic import BaseModel, Field, SecretStr

from graph.errors import ToolError
from graph.tools.card import AgentTool, ToolCard, ToolExample
from graph.tools.http_client import open_client
from graph.tools.retries import RetryableStatusError, raise_if_retryable, retrying
from graph.tools.settings import WebSearchSettings

KEY_VARIABLE = "TAVILY_API_KEY"
_SNIPPET = 400
"""Characters kept of a result's text."""


class WebSearchArgs(BaseModel):
    """Arguments of `web_search`."""

    query: str = Field(description="what to search the web for", min_length=1, max_length=400)


class WebSearchTool(AgentTool):
    """Searches the web and returns titles, addresses and snippets."""

    name: str = "web_search"
    description: str = "Searches the web; returns titles, addresses and snippets."
    args_schema: type[BaseModel] = WebSearchArgs
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    card: ToolCard
    settings: WebSearchSettings

    async def unavailable(self) -> str | None:
        """There is no key."""
        return None if _key() else f"It needs a key: set {KEY_VARIABLE}."

    async def _arun(self, query: str) -> tuple[str, dict[str, Any]]:
        """Search.

        Raises:
            ToolError: there is no key or it is refused, the quota is used up, or the service does not answer in time.
        """
        key = _key()
        if key is None:
            raise ToolError(f"web_search needs a key in {KEY_VARIABLE}: use another tool.")
        seconds = self.settings.timeout
        try:
            async with asyncio.timeout(seconds):
                results = await self._search(query, key, seconds)
        except TimeoutError as error:
            raise ToolError(
                f"The search did not answer within {seconds:g} s: try again, or use another tool."
            ) from error
        if not results:
            return f"The web search found nothing for {query!r}: use other words.", {"results": []}
        lines = [
            f"{number}. {result['title']} — {result['url']}\n{result['snippet']}"
            for number, result in enumerate(results, start=1)
        ]
        return "\n\n".join(lines), {"results": results}

    async def _search(self, query: str, key: SecretStr, seconds: float) -> list[dict[str, str]]:
        from tavily import AsyncTavilyClient, errors  # not at the top: slow to import

        async with open_client(seconds) as http:
            http.event_hooks["response"] = [_raise_if_retryable]
            client = AsyncTavilyClient(
                key.get_secret_value(), api_base_url=self.settings.base_url, client=http, client_name="agentflow"
            )
            try:
                async for attempt in retrying(seconds):
                    with attempt:
                        answer = await client.search(query, max_results=self.settings.max_results, timeout=seconds)
            except RetryableStatusError as error:
                reason = "its quota is used up" if error.status == 429 else f"it answers {error}"
                raise ToolError(f"The web search cannot be used now ({reason}): use another tool.") from error
            except (errors.InvalidAPIKeyError, errors.ForbiddenError, errors.UsageLimitExceededError) as error:
                raise ToolError(f"The web search refuses the key in {KEY_VARIABLE}: use another tool.") from error
            except errors.BadRequestError as error:
                raise ToolError("The web search refuses this query: use other words.") from error
            except errors.TimeoutError as error:
                raise TimeoutError from error
            except httpx.HTTPStatusError as error:
                raise ToolError(f"The web search answers {error.response.status_code}: use another tool.") from error
            except httpx.HTTPError as error:
                raise ToolError("The web search cannot be reached: use another tool.") from error
            except (ValueError, AttributeError, TypeError) as error:
                # the client takes the answer's form for granted
                raise ToolError("The web search does not answer as Tavily does: use another tool.") from error
        return _results(answer)


async def _raise_if_retryable(response: httpx.Response) -> None:
    """Before the client turns the answer into an exception that no longer says when to try again."""
    raise_if_retryable(response)


def _results(answer: Any) -> list[dict[str, str]]:
    found = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise ToolError("The web search does not answer as Tavily does: use another tool.")
    results = []
    for result in found:
        if isinstance(result, dict) and isinstance(result.get("url"), str):
            snippet = " ".join(str(result.get("content") or "").split())
            short = snippet if len(snippet) <= _SNIPPET else snippet[:_SNIPPET].rsplit(" ", 1)[0] + " …"
            results.append({"title": str(result.get("title") or result["url"]), "url": result["url"], "snippet": short})
    return results


def _key() -> SecretStr | None:
    """Read at each call, never kept: nothing that is printed or stored can hold it."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    return SecretStr(key) if key else None


def build(settings: WebSearchSettings) -> WebSearchTool:
    """Make the tool; whether there is a key is told by `unavailable`."""
    card = ToolCard(
        limits=f"At most {settings.max_results} results with snippets of {_SNIPPET} characters, not whole pages.",
        best_practice="Use a few telling keywords; read a promising result with read_page.",
        examples=(
            ToolExample(
                sub_goal="Find the latest stable release of Python", arguments={"query": "latest stable Python release"}
            ),
            ToolExample(
                sub_goal="Find who won the last FIFA World Cup", arguments={"query": "last FIFA World Cup winner"}
            ),
        ),
        timeout=settings.timeout + 2,  # the tool itself ends at settings.timeout, with a better message
        cache_seconds=86_400,  # what the web says changes
        max_output=20 * (_SNIPPET + 300),
    )
    return WebSearchTool(card=card, settings=settings)
