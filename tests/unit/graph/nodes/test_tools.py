"""One call of a tool, and everything that can go wrong in it (case 6)."""

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.types import Command
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from graph.context import Context
from graph.deadline import Deadline
from graph.errors import ToolError
from graph.nodes.tools import ToolTask, fit_arguments, tools
from graph.records import Observation
from graph.tools.card import ToolCard
from graph.tools.registry import Toolbox

REPOSITORY = Path(__file__).resolve().parents[4]


class Args(BaseModel):
    text: str
    count: int = 1
    ratio: float = 1.0
    flag: bool = False
    words: list[str] = Field(default_factory=list)
    extras: dict[str, int] = Field(default_factory=dict)
    even: Annotated[int, Field(multiple_of=2)] = 0


async def echo(text: str, **others: Any) -> str:
    return text


ECHO = StructuredTool.from_function(coroutine=echo, name="echo", description="d", args_schema=Args)


class Runtime:
    """What a node sees of LangGraph's runtime."""

    def __init__(self, tool: BaseTool, *, seconds: float = 10.0, repeating: int | None = None) -> None:
        self.events: list[Any] = []
        self.context = Context(
            run="r",
            models={},
            toolbox=Toolbox({tool.name: tool}),
            deadline=Deadline(seconds),
            repeating=repeating,
            on_event=self.events.append,
        )


async def observe(tool: BaseTool, *, runtime: Runtime | None = None, **arguments: Any) -> Observation:
    task = ToolTask(tool=tool.name, arguments=arguments, turn=0, index=0)
    update = await tools(task, runtime or Runtime(tool))
    assert set(update) == {"turns"}
    return update["turns"][0]


def make_tool(function: Any, *, card: ToolCard | None = None, **options: Any) -> BaseTool:
    metadata = {"card": card} if card else None
    return StructuredTool.from_function(coroutine=function, name="tool", description="d", metadata=metadata, **options)


@pytest.mark.parametrize(
    ("given", "fitted"),
    [
        ({"text": "a", "count": "3"}, {"text": "a", "count": 3}),
        ({"text": "a", "count": 3.0}, {"text": "a", "count": 3}),
        ({"text": "a", "ratio": "0.5"}, {"text": "a", "ratio": 0.5}),
        ({"text": "a", "ratio": 2}, {"text": "a", "ratio": 2.0}),
        ({"text": "a", "flag": "true"}, {"text": "a", "flag": True}),
        ({"text": 42}, {"text": "42"}),
        ({"text": 4.5, "count": "2"}, {"text": "4.5", "count": 2}),
        ({"text": "a", "words": '["b", "c"]'}, {"text": "a", "words": ["b", "c"]}),
        ({"text": "a", "extras": '{"n": 1}'}, {"text": "a", "extras": {"n": 1}}),
        ({"text": "a\n\nb"}, {"text": "a\n\nb"}),
    ],
)
def test_safe_coercions(given, fitted):
    assert fit_arguments(ECHO, given) == (fitted, None)


def test_unknown_arguments_are_dropped_and_named():
    arguments, note = fit_arguments(ECHO, {"text": "a", "query": "b", "k": 1})
    assert arguments == {"text": "a"}
    assert note == "ignored unknown arguments: query, k"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "text: field required"),
        ({"query": "a"}, "text: field required"),
        ({"text": None}, "text: input should be a valid string"),
        ({"text": True}, "text: input should be a valid string"),
        ({"text": ["a"]}, "text: input should be a valid string"),
        ({"text": "a", "count": "many"}, "count: input should be a valid integer"),
        ({"text": "a", "count": 1.5}, "count: input should be a valid integer"),
        ({"text": "a", "words": "b, c"}, "words: input should be a valid list"),
        ({"text": "a", "words": "{}"}, "words: input should be a valid list"),
        ({"text": "a", "even": 3}, "even: input should be a multiple of 2"),
    ],
)
async def test_arguments_that_do_not_fit_are_explained(given, problem):
    """The message says what is wrong and what the tool takes; the tool is not run."""
    observation = await observe(ECHO, **given)
    assert observation.status == "error"
    assert observation.content.startswith(f"echo was not run: {problem}")
    assert observation.content.endswith(
        "It takes: text, count (optional), ratio (optional), flag (optional), "
        "words (optional), extras (optional), even (optional)."
    )
    assert observation.arguments == given


async def test_an_ignored_argument_is_told_with_the_result():
    observation = await observe(ECHO, text="a", query="b")
    assert (observation.status, observation.content) == ("ok", "a\n(ignored unknown arguments: query)")
    assert observation.arguments == {"text": "a"}


def test_aliases_and_open_schemas_keep_their_arguments():
    class Aliased(BaseModel):
        text: str = Field(alias="from")

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        text: str

    aliased = StructuredTool.from_function(coroutine=echo, name="t", description="d", args_schema=Aliased)
    assert fit_arguments(aliased, {"from": "a", "text": "b"})[0] == {"from": "a"}
    open_tool = StructuredTool.from_function(coroutine=echo, name="t", description="d", args_schema=Open)
    assert fit_arguments(open_tool, {"text": "a", "more": 1}) == ({"text": "a", "more": 1}, None)


def test_a_servers_own_schema_is_left_to_the_server():
    tool = StructuredTool.from_function(
        coroutine=echo, name="t", description="d", args_schema={"type": "object", "properties": {}}
    )
    assert fit_arguments(tool, {"anything": 1}) == ({"anything": 1}, None)


@pytest.mark.parametrize(
    ("error", "content"),
    [
        (ToolError("Use another word."), "Use another word."),
        (ToolException("Not found."), "Not found."),
        (ValueError("bad\x00\ud83d"), "tool failed: ValueError: bad\ufffd"),
        (KeyError("k"), "tool failed: KeyError: 'k'"),
        (TimeoutError("its own"), "tool failed: TimeoutError: its own"),
        (StopAsyncIteration(), "tool failed: StopAsyncIteration"),
    ],
)
async def test_whatever_a_tool_raises_is_an_observation(error, content):
    async def fail() -> str:
        raise error

    observation = await observe(make_tool(fail))
    assert observation.status == "error"
    assert observation.content.startswith(content)


class UntoldError(Exception):
    def __str__(self) -> str:
        raise SystemExit(4)


ENDS = [
    (lambda: SystemExit(3), "tool failed: SystemExit: 3"),
    (lambda: KeyboardInterrupt(), "tool failed: KeyboardInterrupt"),
    (lambda: asyncio.CancelledError(), "tool failed: CancelledError"),
    (lambda: GeneratorExit(), "tool failed: GeneratorExit"),
    (lambda: BaseExceptionGroup("two", [SystemExit(1), ValueError()]), "tool failed: BaseExceptionGroup: two"),
    (lambda: UntoldError(), "tool failed: UntoldError: (UntoldError that cannot be shown as text)"),
]


@pytest.mark.parametrize(("make", "content"), ENDS)
async def test_what_would_end_the_process_is_an_observation(make, content):
    async def fail() -> str:
        await asyncio.sleep(0)
        raise make()

    observation = await observe(make_tool(fail))
    assert (observation.status, observation.content.startswith(content)) == ("error", True), observation.content


@pytest.mark.parametrize(("make", "content"), [*ENDS, (lambda: StopIteration(2), "tool failed: StopIteration: 2")])
async def test_and_so_it_is_in_a_synchronous_tool(make, content):
    def fail() -> str:
        raise make()

    class Own(BaseTool):
        name: str = "tool"
        description: str = "d"

        def _run(self) -> str:
            return fail()

    for tool in (StructuredTool.from_function(fail, name="tool", description="d"), Own()):
        observation = await observe(tool)
        assert (observation.status, observation.content.startswith(content)) == ("error", True), observation.content


async def test_a_validator_that_raises_anything_is_an_observation():
    def refuse(_value: str) -> str:
        raise SystemExit(3)

    class Strict(BaseModel):
        text: Annotated[str, AfterValidator(refuse)]

    tool = StructuredTool.from_function(coroutine=echo, name="tool", description="d", args_schema=Strict)
    observation = await observe(tool, text="a")
    assert (observation.status, observation.content) == ("error", "tool failed: SystemExit: 3")


async def test_a_command_for_another_graph_is_an_observation():
    async def give() -> Any:
        return Command(goto="elsewhere")

    observation = await observe(make_tool(give))
    assert observation.status == "error"
    assert observation.content.startswith("tool returned a Command, which cannot be used here")


async def test_an_artifact_that_holds_itself():
    async def give() -> Any:
        artifact: dict[str, Any] = {"n": 1}
        artifact |= {"again": artifact, "twice": [artifact]}
        return "text", artifact

    observation = await observe(make_tool(give, response_format="content_and_artifact"))
    assert (observation.status, observation.content, observation.artifact["n"]) == ("ok", "text", 1)
    Observation.model_validate_json(observation.model_dump_json())


async def test_a_synchronous_tool_that_hangs_is_left_behind():
    hung, release = threading.Event(), threading.Event()

    def hang() -> str:
        hung.set()
        release.wait(60)
        return "never"

    card = ToolCard(limits="", best_practice="", timeout=0.2)
    tool = StructuredTool.from_function(hang, name="tool", description="d", metadata={"card": card})
    assert (await observe(tool)).status == "timeout"
    assert hung.is_set()
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "agentflow-worker")
    release.set()


async def test_a_tool_that_objects_to_being_stopped_is_stopped():
    async def object_() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise ValueError("no") from None
        return "never"

    observation = await observe(make_tool(object_, card=ToolCard(limits="", best_practice="", timeout=0.2)))
    assert observation.status == "timeout"
    task = asyncio.create_task(observe(make_tool(object_)))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


CTRL_C = """
import asyncio, os, signal
from langchain_core.tools import StructuredTool
from tests.unit.graph.nodes.test_tools import make_tool, observe

async def interrupted() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    return "went on"

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell is started with it ignored
loop = asyncio.new_event_loop()
try:
    loop.run_until_complete(observe(make_tool(interrupted)))
except KeyboardInterrupt:
    print("stopped")
"""


def test_a_real_ctrl_c_stops_at_once_where_python_handles_it():
    done = subprocess.run([sys.executable, "-c", CTRL_C], capture_output=True, text=True, cwd=REPOSITORY, timeout=60)
    assert done.stdout == "stopped\n", done.stderr


async def test_the_tools_own_limit_is_enforced_and_named():
    async def sleep() -> str:
        await asyncio.sleep(30)
        return "never"

    start = time.monotonic()
    observation = await observe(make_tool(sleep, card=ToolCard(limits="", best_practice="", timeout=0.2)))
    assert (observation.status, observation.content) == ("timeout", "tool was stopped after 0.2 s, the tool's limit.")
    assert time.monotonic() - start < 10


async def test_the_runs_time_is_enforced_and_named():
    async def sleep() -> str:
        await asyncio.sleep(30)
        return "never"

    tool = make_tool(sleep)
    observation = await observe(tool, runtime=Runtime(tool, seconds=0.2))
    assert observation.status == "timeout"
    assert observation.content.endswith("s, all that was left to the run.")
    assert (await observe(tool, runtime=Runtime(tool, seconds=0.0))).status == "timeout"


async def test_long_output_is_cut_to_the_cards_limit():
    async def shout() -> str:
        return "H" * 5000 + "T" * 5000

    observation = await observe(make_tool(shout, card=ToolCard(limits="", best_practice="", max_output=1000)))
    assert 990 <= len(observation.content) <= 1000
    assert observation.content.startswith("HHH")
    assert observation.content.endswith("TTT")
    assert "characters left out" in observation.content


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ("", "(no output)"),
        (42, "42"),
        ({"a": [1, 2]}, '{"a": [1, 2]}'),
        (None, "null"),
        ("a\x00\ud83d", "a\ufffd"),
        ([{"type": "text", "text": "from a server"}], "from a server"),
    ],
)
async def test_results_of_every_kind_become_text(result, content):
    async def give() -> Any:
        return result

    observation = await observe(make_tool(give))
    assert (observation.status, observation.content) == ("ok", content)


async def test_artifacts_become_plain_json():
    async def give() -> Any:
        return "text", {"figures": [b"png"], "odd": object, 1: {2, 3}, "path": "a\x00"}

    observation = await observe(make_tool(give, response_format="content_and_artifact"))
    assert observation.artifact["figures"] == ["png"]
    assert observation.artifact["1"] == [2, 3]
    assert observation.artifact["path"] == "a"
    Observation.model_validate_json(observation.model_dump_json())


async def test_a_failure_that_the_tool_reports_in_its_artifact():
    async def give() -> Any:
        return "Traceback …", {"failed": True}

    assert (await observe(make_tool(give, response_format="content_and_artifact"))).status == "error"


async def test_what_is_told_while_a_call_goes_on():
    runtime = Runtime(ECHO)
    await observe(ECHO, runtime=runtime, text="a")
    assert [event.kind for event in runtime.events] == ["tool", "observation"]
    assert runtime.events[0].data == {"index": 0, "tool": "echo", "arguments": {"text": "a"}}
    assert runtime.events[1].data["content"] == "a"


@pytest.mark.parametrize(("repeating", "repeated"), [(None, False), (0, True), (1, False)])
async def test_a_call_of_an_interrupted_turn_is_marked(repeating, repeated):
    observation = await observe(ECHO, runtime=Runtime(ECHO, repeating=repeating), text="a")
    assert observation.repeated is repeated


async def test_a_cancelled_run_cancels_its_tools():
    async def sleep() -> str:
        await asyncio.sleep(30)
        return "never"

    task = asyncio.create_task(observe(make_tool(sleep)))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
