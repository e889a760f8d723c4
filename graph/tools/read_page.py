"""The `read_page` tool: one page of the web, and what it says on a question."""

import asyncio
import socket
import time
from typing import Any, Literal

from pydantic import BaseModel, Field, PrivateAttr

from graph.corpus.passages import best_passages
from graph.errors import ToolError
from graph.tools.address_guard import AddressGuard
from graph.tools.card import AgentTool, ToolCard, ToolExample
from graph.tools.page_fetch import Page, fetch_page
from graph.tools.settings import ReadPageSettings

_BUDGET = 2_400
"""Characters of the passages returned."""
_PROBE_HOST = "example.com"
_PROBE_SECONDS = 3.0
_PROBE_KEPT = 60.0


class ReadPageArgs(BaseModel):
    """Arguments of `read_page`."""

    url: str = Field(description="the page's full address, starting with https://", min_length=3, max_length=2_000)
    query: str = Field("", description="what to look for in the page", max_length=500)


class ReadPageTool(AgentTool):
    """Fetches a page, extracts its text and returns the passages that matter for a question."""

    name: str = "read_page"
    description: str = "Reads one web page and returns what it says on a question."
    args_schema: type[BaseModel] = ReadPageArgs
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    card: ToolCard
    settings: ReadPageSettings
    _guard: AddressGuard = PrivateAttr()
    _probe: tuple[float, str | None] | None = PrivateAttr(None)

    def model_post_init(self, context: Any, /) -> None:
        """Make the guard."""
        super().model_post_init(context)
        self._guard = AddressGuard(self.settings.allow_hosts)

    async def unavailable(self) -> str | None:
        """No name on the internet can be looked up; asked at most once a minute. Never with `allow_hosts`."""
        if self.settings.allow_hosts:
            return None
        if self._probe is None or time.monotonic() - self._probe[0] > _PROBE_KEPT:
            try:
                async with asyncio.timeout(_PROBE_SECONDS):
                    await asyncio.get_running_loop().getaddrinfo(_PROBE_HOST, 443, type=socket.SOCK_STREAM)
                reason = None
            except (OSError, TimeoutError):
                reason = "No network: names on the internet cannot be looked up from this machine."
            self._probe = (time.monotonic(), reason)
        return self._probe[1]

    async def _arun(self, url: str, query: str = "") -> tuple[str, dict[str, Any]]:
        """Read the page.

        Raises:
            ToolError: the page cannot be fetched in time, is refused, or holds no text.
        """
        seconds = self.settings.timeout
        try:
            async with asyncio.timeout(seconds):
                page = await fetch_page(url, guard=self._guard, max_bytes=self.settings.max_bytes, seconds=seconds)
                title, text = await asyncio.to_thread(extract_text, page)
        except TimeoutError as error:
            raise ToolError(f"Reading {url} took longer than {seconds:g} s: try another page.") from error
        if not text.strip():
            raise ToolError(f"{page.url} holds no readable text (it may need JavaScript): use another page.")
        passages = await asyncio.to_thread(best_passages, text, query or title, budget_chars=_BUDGET)
        notes = f" (only the first {self.settings.max_bytes:,} bytes were read)" if page.cut else ""
        heading = f"{title} — {page.url}{notes}" if title else f"{page.url}{notes}"
        artifact = {"url": page.url, "title": title, "characters": len(text), "cut": page.cut}
        return "\n".join([heading, "\n…\n".join(passages)]), artifact


def extract_text(page: Page) -> tuple[str, str]:
    """The title and the text of a page, without menus and advertisements where it is HTML."""
    if page.kind in {"", "text/html", "application/xhtml+xml"} and b"<" in page.content[:2_000]:
        # not at the top: slow to import
        import trafilatura
        from trafilatura.settings import Document as Extracted

        source = _decode(page) if page.charset else page.content
        found = trafilatura.bare_extraction(source, url=page.url, include_comments=False, with_metadata=True)
        if isinstance(found, Extracted) and found.text:
            return found.title or "", found.text
        return "", trafilatura.html2txt(source)
    return "", _decode(page)


def _decode(page: Page) -> str:
    try:
        return page.content.decode(page.charset or "utf-8", "replace")
    except LookupError:
        return page.content.decode("utf-8", "replace")


def build(settings: ReadPageSettings) -> ReadPageTool:
    """Make the tool."""
    card = ToolCard(
        limits=f"Public pages of text only (no PDF, no login, no JavaScript), up to {settings.max_bytes / 1e6:g} MB.",
        best_practice="Use an address that another tool found, and say in the query what to look for.",
        examples=(
            ToolExample(
                sub_goal="Find out what example.com is for",
                arguments={"url": "https://example.com", "query": "what is this domain for"},
            ),
            ToolExample(
                sub_goal="Find the height of Mount Fuji on its Wikipedia page",
                arguments={"url": "https://en.wikipedia.org/wiki/Mount_Fuji", "query": "height in metres"},
            ),
        ),
        timeout=settings.timeout + 2,  # the tool itself ends at settings.timeout, with a better message
        cache_seconds=86_400,  # what the web says changes
        max_output=_BUDGET + 1_000,
    )
    return ReadPageTool(card=card, settings=settings)
