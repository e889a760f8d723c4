"""What a tool tells the planner and the executor about itself."""

from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field


class ToolExample(BaseModel):
    """One worked call, shown to the executor."""

    model_config = ConfigDict(frozen=True)

    sub_goal: str
    arguments: dict[str, Any]
    """Valid under the tool's argument schema; a test checks every built-in's."""


class ToolCard(BaseModel):
    """A tool's limits as they are enforced, and how to use it well."""

    model_config = ConfigDict(frozen=True)

    limits: str
    """One sentence on what the tool cannot do."""
    best_practice: str
    """One sentence on how to get the most from it."""
    examples: tuple[ToolExample, ...] = ()
    timeout: float = 60.0
    """Seconds after which a call is abandoned by the tools node; less where the run has less time left."""
    max_output: int = 20_000
    """Characters kept of a result (the tools node cuts head and tail around a note of what was left out)."""
    code_argument: str | None = None
    """The one argument that the executor writes as a fenced code block rather than inside JSON; None for none."""
    version: str = "1"
    """Part of the result cache's key: raised when the same arguments may give another result."""
    cacheable: bool = True
    """False for a tool whose calls have effects or whose result changes from call to call."""
    cache_seconds: int | None = Field(None, gt=0)
    """Seconds for which a cached result is used; None for always, as for a tool that computes."""


class AgentTool(BaseTool):
    """A LangChain tool with a card.

    Subclasses implement `_arun` and raise `graph.errors.ToolError` with a message that the model can act on. With
    `response_format = "content_and_artifact"` they return `(text for the model, JSON-like extras for the user)`; extras
    with `failed` or `timed_out` set make the observation an error or a timeout although there is a result to read.
    """

    card: ToolCard

    def _run(self, *_args: Any, **_kwargs: Any) -> Any:
        """Tools of this project are asynchronous only."""
        raise TypeError(f"{self.name} is asynchronous: call ainvoke")

    async def unavailable(self) -> str | None:
        """Why this tool cannot be offered now (a missing key, no network, no sandbox) in one sentence, or None."""
        return None
