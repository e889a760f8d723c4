"""A user's own tools, right and wrong."""

from langchain_core.tools import StructuredTool, tool
from pydantic import BaseModel, Field

from graph.tools.card import AgentTool, ToolCard

CARD = ToolCard(limits="Only here.", best_practice="Try it.", version="7")


@tool
async def greet(name: str) -> str:
    """Greets somebody."""
    return f"Hello {name}"


def make_greeter() -> StructuredTool:
    """A callable that returns a tool, with a card."""

    async def greeter(name: str) -> str:
        return f"Good day {name}"

    return StructuredTool.from_function(
        coroutine=greeter, name="greeter", description="Greets  well.\nAlways.", metadata={"card": CARD}
    )


class TitleArgs(BaseModel):
    title: str = Field(description="a title")


class Needy(AgentTool):
    """A tool that cannot be offered now."""

    name: str = "needy"
    description: str = "Needs something."
    args_schema: type[BaseModel] = TitleArgs
    card: ToolCard = CARD

    async def unavailable(self) -> str | None:
        return "it needs something that is not here"


class Unsure(Needy):
    """A tool that cannot tell whether it can be offered."""

    name: str = "unsure"

    async def unavailable(self) -> str | None:
        raise SystemExit(3)


def twin() -> StructuredTool:
    """Has the name of another."""
    return StructuredTool.from_function(coroutine=greet.coroutine, name="greet", description="Also greets.")


def broken() -> StructuredTool:
    raise RuntimeError("it has no engine")


def leave() -> StructuredTool:
    raise SystemExit(3)


not_a_tool = 42
