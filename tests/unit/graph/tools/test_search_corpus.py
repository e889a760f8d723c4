"""The corpus tool, and what the cards of the tools that look things up promise."""

from pathlib import Path

import pytest
from langchain_core.tools import BaseTool

from graph.corpus.document import Document
from graph.corpus.index import build_index
from graph.corpus.location import default_index_path
from graph.errors import ConfigError, ToolError
from graph.tools import read_page, search_corpus, web_search, wikipedia
from graph.tools.card import AgentTool
from graph.tools.settings import CorpusSettings, ReadPageSettings, WebSearchSettings, WikipediaSettings

LONG = "The bridge stands in the harbour. " + "Nothing else is known of it. " * 200 + "It was opened in 1932."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    documents = [Document("1", "Harbour Bridge", LONG, "encyclopedia")]
    documents += [Document(str(n), f"Bridge {n}", f"A bridge. {LONG}", "list") for n in range(2, 10)]
    build_index(documents, tmp_path / "corpus.db")
    return tmp_path / "corpus.db"


async def test_passages_that_answer_are_returned_within_the_limit(path: Path) -> None:
    tool = search_corpus.build(CorpusSettings(path=path))
    message = await tool.ainvoke(
        {"name": tool.name, "args": {"query": "When was the harbour bridge opened?"}, "id": "1", "type": "tool_call"}
    )
    assert message.content.startswith("1. Harbour Bridge (encyclopedia)\n")
    assert "opened in 1932" in message.content
    assert len(message.content) <= 2_000 < tool.card.max_output
    assert message.artifact["hits"][0]["id"] == "1"
    assert len(message.artifact["hits"]) == CorpusSettings().top_k


async def test_nothing_found_is_a_message(path: Path) -> None:
    tool = search_corpus.build(CorpusSettings(path=path))
    assert "use other words" in await tool.ainvoke({"query": "zyxwv"})


async def test_tool_is_offered_only_with_an_index(path: Path, tmp_path: Path) -> None:
    assert await search_corpus.build(CorpusSettings(path=path)).unavailable() is None
    why = await search_corpus.build(CorpusSettings(path=tmp_path / "none.db")).unavailable()
    assert why is not None
    assert "agentflow setup" in why
    assert "agentflow corpus build DIR" in why


async def test_index_that_goes_away_is_an_observation(tmp_path: Path) -> None:
    tool = search_corpus.build(CorpusSettings(path=tmp_path / "gone.db"))
    with pytest.raises(ToolError, match="Go on with another tool"):
        await tool.ainvoke({"query": "bridge"})


def test_starter_corpus_is_in_the_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(tmp_path))
    assert default_index_path() == tmp_path / "corpus" / "starter.db"
    assert search_corpus.build(CorpusSettings()).path == default_index_path()
    monkeypatch.delenv("AGENTFLOW_CACHE_DIR")
    assert default_index_path().parent.parent.name == "agentflow"


TOOLS = [
    search_corpus.build(CorpusSettings()),
    wikipedia.build(WikipediaSettings(timeout=7)),
    read_page.build(ReadPageSettings(timeout=7)),
    web_search.build(WebSearchSettings(timeout=7)),
]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_cards_hold_what_they_promise(tool: BaseTool) -> None:
    assert isinstance(tool, AgentTool)
    assert len(tool.card.examples) >= 2
    for example in tool.card.examples:
        assert set(example.arguments) <= set(tool.args)
        tool.args_schema.model_validate(example.arguments)
    assert tool.card.limits
    assert tool.card.best_practice
    if tool.name != "search_corpus":
        assert tool.card.timeout == 9


@pytest.mark.parametrize("language", ["", "e", "en.evil.test/", "EN", "en/../x", "-en"])
def test_language_that_is_none(language: str) -> None:
    with pytest.raises(ConfigError, match=r"tools\.wikipedia\.language"):
        wikipedia.build(WikipediaSettings(language=language))
