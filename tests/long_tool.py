"""A user's own tool whose results are as long and as strange as a test wants them."""

from langchain_core.tools import StructuredTool
from pydantic import BaseModel

results: list[str] = []
"""What the next calls return; the last one again and again."""


class LookArgs(BaseModel):
    text: str = ""


async def _look(text: str = "") -> str:
    return text + (results.pop(0) if len(results) > 1 else results[0])


look = StructuredTool.from_function(
    coroutine=_look, name="count_calls", description="Looks something up.", args_schema=LookArgs
)
