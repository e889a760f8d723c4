"""The executor: turns a plan into calls of its tool."""

from langgraph.runtime import Runtime

from graph.code_blocks import code_blocks
from graph.context import Context
from graph.deadline import OutOfTimeError
from graph.errors import FormatError
from graph.events import EventKind
from graph.nodes.module import budget_stop, call_module, read_output, turns_stop
from graph.parsing import parse_calls
from graph.records import Command, Fault, StopReason
from graph.schemas import MAX_CALLS
from graph.state import FlowState, FlowUpdate, ToolDescription


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
    runtime.context.tell(kind, command, turn=turn)
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
        calls = [{tool.code_argument: code} for code in _read_code(text, tool.code_argument)]
    else:
        calls = parse_calls(text, tool.arguments)
    if not calls:
        raise FormatError(f"There was no call. Give the arguments of {tool.name}.")
    return Command(tool=tool.name, calls=tuple(calls[:MAX_CALLS]))


def _read_code(text: str, argument: str) -> list[str]:
    """Return the code blocks, or the code inside JSON where a model wrote the call as for any other tool."""
    blocks = code_blocks(text)
    if not blocks or blocks[0].lstrip().startswith(("{", "[")):
        try:
            calls = parse_calls(text, {"properties": {argument: {"type": "string"}}})
        except FormatError:
            calls = []
        blocks = [call[argument] for call in calls if isinstance(call.get(argument), str)] or blocks
    if not blocks:
        raise FormatError("There was no code block. Write one fenced Python block.")
    return blocks
