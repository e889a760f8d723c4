"""The executor: turns a plan into calls of its tool."""

from typing import Any

from langgraph.runtime import Runtime

from graph.context import Context
from graph.deadline import OutOfTimeError
from graph.errors import FormatError
from graph.events import Event, EventKind
from graph.nodes.module import budget_stop, call_module, read_output, turns_stop
from graph.parsing import code_blocks, parse, parse_arguments
from graph.records import Command, Fault, Record, StopReason
from graph.schemas import MAX_CALLS
from graph.state import FlowState, FlowUpdate, ToolDescription


class _Calls(Record):
    calls: tuple[dict[str, Any], ...]


async def executor(state: FlowState, runtime: Runtime[Context]) -> FlowUpdate:
    """Write the command of the current turn, or the fault that ends it."""
    turn = len(state["turns"]) - 1
    plan = state["turns"][turn].plan
    assert plan is not None, "the executor follows a plan"
    if stop := budget_stop(state, runtime.context):
        return {"stop": stop}
    try:
        call = await call_module("executor", state, runtime, turn)
    except OutOfTimeError:
        return {"stop": StopReason.MAX_SECONDS}
    tool = next(tool for tool in state["setup"].tools if tool.name == plan.tool)
    command = read_output(call, lambda text: read_command(text, tool))
    kind = EventKind.FAULT if isinstance(command, Fault) else EventKind.COMMAND
    runtime.stream_writer(Event.of(kind, command, turn=turn))
    update: FlowUpdate = {"turns": [command], "calls": [call]}
    if isinstance(command, Fault) and (stop := turns_stop(state, turn + 1)):
        update["stop"] = stop
    return update


def read_command(text: str, tool: ToolDescription) -> Command:
    """Parse the calls; whether their arguments fit the tool is judged when it runs.

    Raises:
        FormatError: no call can be read.
    """
    if tool.code_argument:
        blocks = code_blocks(text)
        if not blocks:
            raise FormatError("There was no code block. Write one fenced Python block.")
        return Command(tool=tool.name, calls=tuple({tool.code_argument: block} for block in blocks[:MAX_CALLS]))
    try:
        calls = parse(text, _Calls).calls
    except FormatError:
        calls = (parse_arguments(text, tool.arguments),)
    if not calls:
        raise FormatError(f"There was no call. Give the arguments of {tool.name}.")
    return Command(tool=tool.name, calls=calls[:MAX_CALLS])
