"""The `[tools]` table of agentflow.toml. Free of heavy imports, as the configuration reads it at every start."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PythonSettings(_Settings):
    """The code tool."""

    timeout: float = Field(10.0, gt=0, le=600)
    """Seconds of wall clock for one run; CPU time is limited to the same."""
    memory_mb: int = Field(1024, ge=128)
    """Address space of the sandboxed processes."""
    sandbox: Literal["auto", "rlimits-only"] = "auto"
    """`auto`: bubblewrap, else user namespaces with Landlock, else the tool is not offered. `rlimits-only` accepts a
    process without file or network isolation where neither works."""


class WebSearchSettings(_Settings):
    """Tavily search; the key is read from TAVILY_API_KEY."""

    max_results: int = Field(5, ge=1, le=20)
    timeout: float = Field(20.0, gt=0)
    base_url: str | None = None
    """Another server with Tavily's interface; None for Tavily's own."""


class WikipediaSettings(_Settings):
    """Wikipedia, through the `wikipedia` package."""

    language: str = "en"
    top_pages: int = Field(3, ge=1, le=10)
    timeout: float = Field(20.0, gt=0)
    api_url: str | None = None
    """Another MediaWiki's api.php; None for Wikipedia."""


class ReadPageSettings(_Settings):
    """Fetching one page."""

    timeout: float = Field(20.0, gt=0)
    max_bytes: int = Field(5_000_000, ge=10_000)
    allow_hosts: tuple[str, ...] = ()
    """Host names that may be read although they resolve to a private or loopback address."""


class CorpusSettings(_Settings):
    """BM25 over a local corpus."""

    path: Path | None = None
    """An index made by `agentflow corpus build`; None for the starter corpus that `agentflow setup` fetches."""
    top_k: int = Field(3, ge=1, le=50)


class ToolsSettings(_Settings):
    """Which tools the planner is offered, and their limits."""

    enabled: tuple[str, ...] = ("generate", "python", "search_corpus", "wikipedia", "web_search", "read_page")
    """Built-in names, or the names of `custom` and MCP tools. Order is the order in the prompt."""
    custom: tuple[str, ...] = ()
    """`module:object` of a LangChain tool, or of a callable that returns one."""
    mcp: dict[str, dict[str, object]] = Field(default_factory=dict)
    """MCP servers by name, as langchain-mcp-adapters takes them (`transport`, `command`, `args`, `url`, …)."""
    cache: bool = False
    """Keep results on disk by (tool, version, arguments), for as long as the tool's card says."""
    python: PythonSettings = PythonSettings()
    web_search: WebSearchSettings = WebSearchSettings()
    wikipedia: WikipediaSettings = WikipediaSettings()
    read_page: ReadPageSettings = ReadPageSettings()
    search_corpus: CorpusSettings = CorpusSettings()
