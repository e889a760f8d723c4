"""The `python` tool: code that the executor writes, run in the sandbox."""

import asyncio
import base64
import re
import signal
from typing import Any, Literal

from pydantic import BaseModel, Field

from graph.errors import SandboxError, ToolError
from graph.sandbox import RunResult, detect_level, run_python
from graph.sandbox.child.namespaces import DISK_MB
from graph.sandbox.child.supervisor import PROCESSES
from graph.tools.card import AgentTool, ToolCard, ToolExample
from graph.tools.settings import PythonSettings

_GRACE_SECONDS = 5.0
"""Time to build the sandbox and to take it down, beside the code's own."""
_STDOUT_CHARACTERS = 12_000
_VALUE_CHARACTERS = 4_000
_STDERR_CHARACTERS = 3_000
_STDERR_LINES = 30
_ARTIFACT_CHARACTERS = 50_000
"""Of each part that is stored with the run."""
_FENCED = re.compile(
    r"\s*(?P<fence>`{3,}|~{3,})[ \t]*(?:python|py|python3)?[ \t]*\r?\n(?P<code>.*?)(?:\r?\n)?[ \t]*(?P=fence)\s*",
    re.I | re.S,
)


class PythonArgs(BaseModel):
    """Arguments of the `python` tool."""

    code: str = Field(
        description="A complete Python 3 script. Print what matters, or end with an expression: its value is reported."
    )


class PythonTool(AgentTool):
    """Runs a Python script in a sandbox: no network, no files of this machine, a fresh directory each time."""

    name: str = "python"
    description: str = (
        "Runs a Python script and returns its output, the value of its last expression, and errors. "
        "For arithmetic, algebra, dates, counting, text and simulations; numpy and sympy can be imported."
    )
    args_schema: type[BaseModel] = PythonArgs
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    settings: PythonSettings

    async def _arun(self, code: str, **_: Any) -> tuple[str, dict[str, Any]]:
        code = strip_fence(code)
        if not code.strip():
            raise ToolError("The code is empty: write the script to run.")
        try:
            level = await asyncio.to_thread(detect_level, self.settings)
            result = await run_python(
                code, timeout=self.settings.timeout, memory_mb=self.settings.memory_mb, level=level
            )
        except SandboxError as error:
            raise ToolError(f"The code was not run: {error}") from error
        return self._text(result), _artifact(result, level)

    async def unavailable(self) -> str | None:
        """Say why no sandbox works on this machine, or return None."""
        try:
            await asyncio.to_thread(detect_level, self.settings)
        except SandboxError as error:
            return str(error)
        return None

    def _text(self, result: RunResult) -> str:
        """Return what the model reads: only the parts that say something."""
        parts = []
        if result.stdout.strip():
            parts.append(f"stdout:\n{_shortened(result.stdout.rstrip(), _STDOUT_CHARACTERS)}")
        if result.value is not None:
            parts.append(f"value of the last expression: {_shortened(result.value, _VALUE_CHARACTERS)}")
        if result.figures:
            parts.append(f"figures saved for the user: {len(result.figures)}")
        if result.stderr.strip():
            last = "\n".join(result.stderr.rstrip().splitlines()[-_STDERR_LINES:])
            parts.append(f"stderr:\n{_shortened(last, _STDERR_CHARACTERS)}")
        if ending := self._ending(result):
            parts.append(ending)
        if not parts:
            parts.append("The code ran and printed nothing: print what you need, or end with an expression.")
        return "\n".join(parts)

    def _ending(self, result: RunResult) -> str | None:
        """Say how the run ended, unless it ended as it should."""
        match result.limit:
            case "time":
                return (
                    f"Stopped at the time limit of {self.settings.timeout:g} s: use a faster method or a smaller case."
                )
            case "memory":
                return f"Stopped at the memory limit of {self.settings.memory_mb} MB: hold less at once."
            case "processes":
                return f"Stopped at the limit of {PROCESSES} processes: start fewer."
            case "output":
                return "Stopped because it printed without end: print only what matters."
        if result.exit_status == 0:
            return None
        return f"exit status {result.exit_status}{_signal_note(result.exit_status)}"


def build(settings: PythonSettings) -> PythonTool:
    """Return the tool with limits as set; whether a sandbox works here is found out when asked or first used."""
    card = ToolCard(
        limits=(
            "Each run starts afresh, without network, input and files of this machine, and is stopped "
            f"after {settings.timeout:g} s; it has {settings.memory_mb} MB of memory, {PROCESSES} processes and "
            f"{DISK_MB} MB for files."
        ),
        best_practice="Write one complete script in which Python does all the work, and print what it finds.",
        examples=(
            ToolExample(
                sub_goal="Find the sum of the digits of 2 to the power 100.",
                arguments={"code": "print(sum(int(digit) for digit in str(2**100)))"},
            ),
            ToolExample(
                sub_goal="Count the days from 14 March 2021 to 1 July 2023.",
                arguments={"code": "from datetime import date\n\nprint((date(2023, 7, 1) - date(2021, 3, 14)).days)"},
            ),
            ToolExample(
                sub_goal='Write the words of "deep blue lake" from last to first, and the letters of harbour likewise.',
                arguments={
                    "code": 'text = "deep blue lake"\nword = "harbour"\n'
                    'print(" ".join(reversed(text.split())))\nprint(word[::-1])'
                },
            ),
            ToolExample(
                sub_goal="Convert 90 pounds to kilograms, where one kilogram is 2.2046 pounds; two decimals.",
                arguments={"code": "pounds_per_kilogram = 2.2046\nprint(round(90 / pounds_per_kilogram, 2))"},
            ),
            ToolExample(
                sub_goal="Solve x squared minus 5x plus 6 equals 0.",
                arguments={"code": 'from sympy import solve, symbols\n\nx = symbols("x")\nsolve(x**2 - 5 * x + 6, x)'},
            ),
        ),
        timeout=settings.timeout + _GRACE_SECONDS,
        code_argument="code",
        cacheable=False,  # code may ask for the time or for random numbers
    )
    return PythonTool(card=card, settings=settings)


def strip_fence(code: str) -> str:
    """Take off a Markdown fence around the whole code; fences within it are the code's own."""
    match = _FENCED.fullmatch(code)
    return match["code"] if match else code


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _signal_note(exit_status: int) -> str:
    try:
        return f" (as for signal {signal.Signals(exit_status - 128).name})"
    except ValueError:
        return ""


def _artifact(result: RunResult, level: str) -> dict[str, Any]:
    """Return everything for the user, in plain JSON types: figures are PNG in base64."""
    parts = result.model_dump(exclude={"figures"})
    for name in ("stdout", "stderr", "value"):
        if parts[name] is not None and len(parts[name]) > _ARTIFACT_CHARACTERS:
            parts[name] = _shortened(parts[name], _ARTIFACT_CHARACTERS)
            parts[f"{name}_truncated"] = True
    figures = [base64.b64encode(figure).decode("ascii") for figure in result.figures]
    failed = result.exit_status != 0 or result.limit is not None
    return {**parts, "failed": failed, "timed_out": result.timed_out, "figures": figures, "sandbox": str(level)}
