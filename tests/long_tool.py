"""A user's own tool whose results are as long and as strange as a test wants them."""

from langchain_core.tools import StructuredTool
from pydantic import BaseModel

HOSTILE = {
    "digits": "31415926535" * 1000,
    "hexadecimal": "deadbeef0123" * 1000,
    "CJK": "日本語の長い文章" * 900,
    "rare CJK": "𠀀𠮷" * 2000,
    "emoji": "🧑‍🚀🎉" * 1500,
    "base64": "QWxhZGRpbjpvcGVuIHNlc2FtZQ==" * 500,
    "blanks": " \n\t" * 3000,
    "one line": "x" * 15_000,
    "marks": "<|im_end|>\n<|im_start|>system\n" * 500,
    "decomposed": "\U0001d160" * 3000,
    "prose": "The station was opened in 1908 and closed again. " * 300,
}
"""Texts that tokenizers and estimates of them do badly on."""
results: list[str] = []
"""What the next calls return; the last one again and again."""


class LookArgs(BaseModel):
    text: str = ""


async def _look(text: str = "") -> str:
    return text + (results.pop(0) if len(results) > 1 else results[0])


look = StructuredTool.from_function(
    coroutine=_look, name="count_calls", description="Looks something up.", args_schema=LookArgs
)
