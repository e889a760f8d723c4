"""The `search_corpus` tool: BM25 over a corpus on this machine."""

import asyncio
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from graph.corpus.index import CorpusIndex, Hit
from graph.corpus.location import default_index_path
from graph.corpus.passages import best_passages
from graph.errors import StorageError, ToolError
from graph.tools.card import AgentTool, ToolCard, ToolExample
from graph.tools.settings import CorpusSettings

_BUDGET = 1_600
"""Characters of all passages together: small models read slowly, and what matters is in the first hits."""
_FIRST_BUDGET = 600
_OTHER_BUDGET = 350


class SearchCorpusArgs(BaseModel):
    """Arguments of `search_corpus`."""

    query: str = Field(description="a question or keywords, with the names of things", min_length=1, max_length=500)


class SearchCorpusTool(AgentTool):
    """Finds the documents of a local corpus that answer a question, and the passages in them that matter."""

    name: str = "search_corpus"
    description: str = "Looks up facts in a local encyclopedia and country facts, or the user's own documents."
    args_schema: type[BaseModel] = SearchCorpusArgs
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    card: ToolCard = ToolCard(
        limits="Finds words, not meanings, in a fixed set of short texts; knows no news.",
        best_practice="Ask for one fact at a time, and name the person, place or thing.",
        examples=(
            ToolExample(
                sub_goal="Find the capital of Mongolia", arguments={"query": "What is the capital of Mongolia?"}
            ),
            ToolExample(
                sub_goal="Find who painted Guernica and when", arguments={"query": "Guernica painting painter year"}
            ),
        ),
        timeout=20,
        max_output=3_000,
    )
    settings: CorpusSettings

    @property
    def path(self) -> Path:
        """Where the index is, or would be."""
        return (self.settings.path or default_index_path()).expanduser()

    async def unavailable(self) -> str | None:
        """The reason the index cannot be opened, which says how to make one."""
        try:
            await asyncio.to_thread(CorpusIndex, self.path)
        except StorageError as error:
            return str(error)
        return None

    async def _arun(self, query: str) -> tuple[str, dict[str, Any]]:
        """Search.

        Raises:
            ToolError: the index is gone or damaged.
        """
        return await asyncio.to_thread(self._search, query)

    def _search(self, query: str) -> tuple[str, dict[str, Any]]:
        try:
            hits = CorpusIndex(self.path).search(query, self.settings.top_k)
        except StorageError as error:
            raise ToolError(f"{error} Go on with another tool.") from error
        if not hits:
            return f"No document holds any word of {query!r}: use other words, or another tool.", {"hits": []}
        entries = [
            {"title": hit.title, "source": hit.source, "id": hit.id, "score": round(hit.score, 2)} for hit in hits
        ]
        return "\n\n".join(_sections(hits, query)), {"hits": entries}


def _sections(hits: list[Hit], query: str) -> list[str]:
    """A heading and the passages that matter for each hit, until the budget is used up."""
    sections: list[str] = []
    left = _BUDGET
    for number, hit in enumerate(hits, start=1):
        budget = min(left, _OTHER_BUDGET if sections else _FIRST_BUDGET)
        passages = best_passages(hit.text, query, budget_chars=budget, passage_chars=200) if budget > 40 else []
        left -= sum(map(len, passages))
        heading = f"{number}. {_heading(hit)}"
        sections.append("\n".join([heading, " … ".join(passages)] if passages else [heading]))
    return sections


def _heading(hit: Hit) -> str:
    """Title and source, once where the source names the title."""
    title = hit.title or hit.id
    return hit.source if title in hit.source else f"{title} ({hit.source})"


def build(settings: CorpusSettings) -> SearchCorpusTool:
    """Make the tool; whether its index exists is told by `unavailable`."""
    return SearchCorpusTool(settings=settings)
