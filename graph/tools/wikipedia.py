"""The `wikipedia` tool: the best pages for a question, and what they say on it.

Built on the `wikipedia` package (see wikipedia_bridge.py). langchain-community's wrapper around it is not used: it is a
loop over the same two functions that drops ambiguous titles without a word, and its package is no longer maintained.
"""

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import httpx
from pydantic import BaseModel, Field, PrivateAttr

from graph.corpus.passages import best_passages
from graph.errors import ConfigError, ToolError
from graph.tools.card import AgentTool, ToolCard, ToolExample
from graph.tools.http_client import open_client
from graph.tools.settings import WikipediaSettings
from graph.tools.wikipedia_bridge import Bridge, private_wikipedia, wikipedia_error

_FIRST_BUDGET = 900
_OTHER_BUDGET = 500
"""Characters of passages per page."""
_MAX_OPTIONS = 12
_MAX_QUERY = 300
"""MediaWiki's own limit of a search."""
_PROBE_SECONDS = 3.0
_PROBE_KEPT = 60.0


class WikipediaArgs(BaseModel):
    """Arguments of `wikipedia`."""

    query: str = Field(description="a question or the name of a thing", min_length=1, max_length=500)


@dataclass(frozen=True)
class WikipediaPage:
    """One article."""

    title: str
    url: str
    text: str


@dataclass(frozen=True)
class Ambiguity:
    """A title that stands for several articles."""

    title: str
    options: tuple[str, ...]


class WikipediaTool(AgentTool):
    """Searches Wikipedia and returns the passages of the best pages that matter."""

    name: str = "wikipedia"
    description: str = "Searches Wikipedia and returns the passages that matter for the query."
    args_schema: type[BaseModel] = WikipediaArgs
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    card: ToolCard
    settings: WikipediaSettings
    _probe: tuple[float, str | None] | None = PrivateAttr(None)

    @property
    def api_url(self) -> str:
        """The address of the MediaWiki API."""
        return self.settings.api_url or f"https://{self.settings.language}.wikipedia.org/w/api.php"

    async def unavailable(self) -> str | None:
        """Wikipedia cannot be reached; asked at most once a minute."""
        if self._probe is None or time.monotonic() - self._probe[0] > _PROBE_KEPT:
            self._probe = (time.monotonic(), await self._reach())
        return self._probe[1]

    async def _reach(self) -> str | None:
        try:
            async with asyncio.timeout(_PROBE_SECONDS), open_client(_PROBE_SECONDS) as client:
                response = await client.get(
                    self.api_url, params={"action": "query", "meta": "siteinfo", "format": "json"}
                )
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError):
            return f"No network: {self.api_url} cannot be reached from this machine."
        return None if response.is_success else f"{self.api_url} answers {response.status_code}, it cannot be used now."

    async def _arun(self, query: str) -> tuple[str, dict[str, Any]]:
        """Search, and read the best pages.

        Raises:
            ToolError: Wikipedia cannot be reached in time, refuses, or answers in a form that is not MediaWiki's.
        """
        seconds = self.settings.timeout
        try:
            async with asyncio.timeout(seconds), open_client(seconds) as client:
                found = await self._find(query, client, seconds)
                return await asyncio.to_thread(_render, found, query)
        except TimeoutError as error:
            raise ToolError(f"Wikipedia did not answer within {seconds:g} s: try again, or another tool.") from error

    async def _find(self, query: str, client: httpx.AsyncClient, seconds: float) -> list[WikipediaPage | Ambiguity]:
        """The best pages, in the search's order; read at the same time, each in a thread of its own."""
        loop = asyncio.get_running_loop()
        bridge = Bridge(client, seconds)
        # threads of its own: in the loop's, waiting calls would take those that look up the names they wait for
        threads = ThreadPoolExecutor(self.settings.top_pages, thread_name_prefix="wikipedia")
        try:
            wiki = await loop.run_in_executor(
                threads, private_wikipedia, self.api_url, client.headers["User-Agent"], bridge
            )
            titles = await loop.run_in_executor(threads, wiki.search, query[:_MAX_QUERY], self.settings.top_pages)
            pages = await asyncio.gather(*(loop.run_in_executor(threads, _load, wiki, title) for title in titles))
        except (KeyError, wikipedia_error()) as error:
            raise ToolError(f"{self.api_url} does not answer as Wikipedia does ({error}): use another tool.") from error
        finally:
            bridge.close()
            threads.shutdown(wait=False, cancel_futures=True)
        return list({page.title: page for page in pages if page}.values())


def _load(wiki: Any, title: str) -> WikipediaPage | Ambiguity | None:
    """One article; None if it is gone, or reached by redirects that the package cannot follow (it asserts)."""
    try:
        page = wiki.page(title, auto_suggest=False)
        return WikipediaPage(page.title, page.url, page.content)
    except wiki.DisambiguationError as error:
        return Ambiguity(error.title, tuple(error.options[:_MAX_OPTIONS]))
    except (wiki.PageError, AssertionError):
        return None


def _render(found: list[WikipediaPage | Ambiguity], query: str) -> tuple[str, dict[str, Any]]:
    sections: list[str] = []
    pages = [page for page in found if isinstance(page, WikipediaPage)]
    for page in pages:
        budget = _OTHER_BUDGET if sections else _FIRST_BUDGET
        sections.append(
            "\n".join([f"{page.title} — {page.url}", *best_passages(page.text, query, budget_chars=budget)])
        )
    sections.extend(
        f"{item.title!r} may mean: {'; '.join(item.options)}. Ask for the one that is meant."
        for item in found
        if isinstance(item, Ambiguity)
    )
    text = "\n\n".join(sections) or f"Wikipedia has no page for {query!r}: use other words, or another tool."
    return text, {"pages": [{"title": page.title, "url": page.url} for page in pages]}


def build(settings: WikipediaSettings) -> WikipediaTool:
    """Make the tool.

    Raises:
        ConfigError: `language` cannot be that of a Wikipedia.
    """
    if not re.fullmatch(r"[a-z]{2,12}(-[a-z]{2,12})*", settings.language):
        raise ConfigError(f"tools.wikipedia.language is {settings.language!r}: give a code such as en, fr or zh-yue.")
    card = ToolCard(
        limits="Knows what encyclopedia articles say; returns passages, not whole pages.",
        best_practice="Ask for one thing by its name, and say what you want to know of it.",
        examples=(
            ToolExample(
                sub_goal="Find the year the Eiffel Tower opened", arguments={"query": "Eiffel Tower opened year"}
            ),
            ToolExample(sub_goal="Find where Ada Lovelace was born", arguments={"query": "Ada Lovelace birthplace"}),
        ),
        timeout=settings.timeout + 2,  # the tool itself ends at settings.timeout, with a better message
        cache_seconds=86_400,  # what the web says changes
        max_output=6_000,
    )
    return WikipediaTool(card=card, settings=settings)
