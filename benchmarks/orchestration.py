"""What the flow costs beside its model calls: milliseconds a turn, and bytes stored.

    python -m benchmarks.orchestration

The same scripted model, without latency, answers the flow (durable SQLite state, events listened to) and a bare loop
that makes the same calls with the same prompts and tools. Both run in turn several times in an open database; the
medians are compared.
The bytes are those of a run's whole database, records of its model calls included.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool
from pydantic import BaseModel

from graph.config import ROLES, Budgets, FlowConfig, ModelConfig
from graph.deadline import Deadline
from graph.flow import build_flow
from graph.models.client import RoleModel
from graph.prompt import Message
from graph.records import ModelCall
from graph.runner import Runner
from graph.storage.database import open_database
from graph.tools.registry import Toolbox
from graph.trace import Trajectory

OBSERVATION = 5_000
"""Characters of each tool result."""
MAX_MS_PER_TURN = 5.0
MAX_BYTES = 1_000_000
"""Of 40 turns."""

_TEXTS = {
    "You analyse": {
        "summary": "The number of inhabitants of the capital of the country with the longest coast",
        "skills": "looking up facts, comparing numbers",
        "tools": ["look_up"],
        "considerations": "Answer with one number; the capital is not the largest city",
    },
    "You plan": {
        "justification": "The memory holds the country but not yet the number of inhabitants of its capital.",
        "context": "Canada has the longest coast, 202,080 km, according to the country facts found in the first turn.",
        "sub_goal": "Find the number of inhabitants of Ottawa, the capital of Canada, in the latest census",
        "tool": "look_up",
    },
    "You call": {"calls": [{"query": "Ottawa population latest census inhabitants"}]},
    "You check": {
        "analysis": "The results describe the city; the census figure is still missing.",
        "stop": False,
    },
    "You give": {"solution": "The results name Ottawa and its census figure.", "answer": "1,017,449"},
}

_SYLLABLES = "ba ce di fo gu la me ni po ru sa te vi wo zu"
_WORDS = ["".join(pair) for pair in product(_SYLLABLES.split(), repeat=2)] + [str(n) for n in range(1500, 2000, 25)]
"""As hard to compress as prose: about three to one."""


class ScriptedChat(BaseChatModel):
    """Answers at once, by role, in pieces of the size of tokens."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_kwargs: Any) -> ChatResult:
        whole = AIMessageChunk(content=_text(messages))
        return ChatResult(generations=[ChatGeneration(message=whole)])

    async def _astream(
        self, messages: list[BaseMessage], *_args: Any, **_kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        text = _text(messages)
        pieces = [text[i : i + 5] for i in range(0, len(text), 5)]
        for piece in pieces:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        prompt = sum(len(str(message.content)) for message in messages) // 4
        usage = {"input_tokens": prompt, "output_tokens": len(pieces), "total_tokens": prompt + len(pieces)}
        end = AIMessageChunk(content="", response_metadata={"finish_reason": "stop"}, usage_metadata=usage)
        yield ChatGenerationChunk(message=end)


def _text(messages: Sequence[BaseMessage]) -> str:
    system = str(messages[0].content)
    return next(json.dumps(reply) for start, reply in _TEXTS.items() if system.startswith(start))


class Recording(RoleModel):
    """Notes what was asked, so that the bare loop can ask the same."""

    asked: list[tuple[RoleModel, Sequence[Message], dict[str, Any] | None]]

    async def complete(self, messages: Sequence[Message], **options: Any) -> ModelCall:
        """Make the call."""
        self.asked.append((self, messages, options["schema"]))
        return await super().complete(messages, **options)


class LookUpArgs(BaseModel):
    """Arguments of the tool."""

    query: str


@dataclass
class Bench:
    """A runner with scripted models, and what the bare loop repeats."""

    turns: int
    asked: list[tuple[RoleModel, Sequence[Message], dict[str, Any] | None]] = field(default_factory=list)
    results: int = 0

    async def look_up(self, query: str) -> str:
        """Return a result that differs from turn to turn."""
        self.results += 1
        words = random.Random(self.results).choices(_WORDS, k=OBSERVATION // 4)
        return f"{query}: {' '.join(words)}"[:OBSERVATION]

    def toolbox(self) -> Toolbox:
        """Return the one tool that is offered."""
        tool = StructuredTool.from_function(
            coroutine=self.look_up, name="look_up", description="Looks up facts.", args_schema=LookUpArgs
        )
        return Toolbox({"look_up": tool})

    def models(self, kind: type[RoleModel] = RoleModel) -> dict[Any, RoleModel]:
        """Return a scripted model for every role."""
        found = {role: kind(role, ModelConfig(model="scripted"), ScriptedChat(), None) for role in ROLES}
        for model in found.values():
            if isinstance(model, Recording):
                model.asked = self.asked
        return found

    @asynccontextmanager
    async def runner(self, file: Path, kind: type[RoleModel] = RoleModel) -> AsyncIterator[Runner]:
        """Open a runner with its database."""
        config = FlowConfig(budgets=Budgets(max_turns=self.turns))
        async with open_database(str(file)) as database:
            flow = build_flow(database.saver)
            yield Runner(config, self.models(kind), self.toolbox(), flow, database=database)

    async def flow(self, runner: Runner) -> Trajectory:
        """Run a question through the flow."""
        done = await runner.ask("How many people live in the capital?", on_event=lambda _event: None)
        assert len(done.turns) == self.turns, done.error
        return done

    async def bare(self) -> None:
        """Make the calls that the flow made, and nothing else."""
        models, tool = self.models(), self.toolbox().tools["look_up"]
        deadline = Deadline(300)
        for asked, messages, schema in self.asked:
            call = await models[asked.role].complete(messages, schema=schema, deadline=deadline, turn=0)
            if asked.role == "executor":
                for arguments in json.loads(call.text)["calls"]:
                    await tool.ainvoke({"type": "tool_call", "name": tool.name, "args": arguments, "id": "call"})


async def stored_bytes(turns: int, directory: Path) -> int:
    """Return the size of the database after one run of `turns` turns."""
    file = directory / f"bytes-{turns}.db"
    bench = Bench(turns)
    async with bench.runner(file) as runner:
        await bench.flow(runner)
    return _size(directory, file.name)


def _size(directory: Path, name: str) -> int:
    return sum(path.stat().st_size for path in directory.glob(f"{name}*"))


async def milliseconds(turns: int, repeats: int, directory: Path) -> tuple[float, float]:
    """Return the median milliseconds a turn of the flow and of the bare loop, which take turns."""
    bench = Bench(turns)
    async with bench.runner(directory / "warm-up.db", Recording) as runner:
        await bench.flow(runner)
    await bench.bare()
    flow, bare = [], []
    async with bench.runner(directory / "runs.db") as runner:
        await bench.flow(runner)
        for _ in range(repeats):
            start = time.perf_counter()
            await bench.flow(runner)
            middle = time.perf_counter()
            await bench.bare()
            flow.append((middle - start) / turns * 1000)
            bare.append((time.perf_counter() - middle) / turns * 1000)
    return statistics.median(flow), statistics.median(bare)


async def measure(turns: int, repeats: int) -> bool:
    """Print the figures; return whether all are within their limits."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        flow, bare = await milliseconds(turns, repeats, directory)
        once, twice = await stored_bytes(40, directory), await stored_bytes(80, directory)
    added = flow - bare
    print(f"flow {flow:.2f} ms a turn, bare calls {bare:.2f} ms: {flow / bare:.2f} times, {added:.2f} ms added")
    print(
        f"stored: {once:,} bytes for 40 turns of {OBSERVATION:,} characters, {twice:,} for 80: {twice / once:.2f} times"
    )
    return added <= MAX_MS_PER_TURN and once <= MAX_BYTES and twice <= 2 * once


def main() -> None:
    """Measure, and say whether the limits hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    held = asyncio.run(measure(options.turns, options.repeats))
    print(
        f"limits (at most {MAX_MS_PER_TURN:g} ms a turn added, {MAX_BYTES:,} bytes, twice that at 80): "
        f"{'held' if held else 'NOT held'}"
    )
    raise SystemExit(0 if held else 1)


if __name__ == "__main__":
    main()
