"""A user's own tool that notes every call in a file, and can be told to wait, fail or print much."""

import asyncio
import os
from pathlib import Path

from langchain_core.tools import StructuredTool
from pydantic import BaseModel, Field


class CountArgs(BaseModel):
    text: str = Field(description="noted in the file")
    wait: float = 0.0
    fail: bool = False
    size: int = 0


async def _count(text: str, wait: float = 0.0, fail: bool = False, size: int = 0) -> str:
    with Path(os.environ["COUNTING_FILE"]).open("a", encoding="utf-8") as file:  # noqa: ASYNC230 - a line
        file.write(text + "\n")
    await asyncio.sleep(wait)
    if fail:
        raise ValueError("the tool broke")
    return "x" * size or f"noted {text}"


count_calls = StructuredTool.from_function(
    coroutine=_count, name="count_calls", description="Notes a text.", args_schema=CountArgs
)
