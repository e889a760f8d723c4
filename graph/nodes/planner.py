"""The planner: opens a turn by choosing a sub-goal and a tool. The one module that is trained."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from graph.context import Context
from graph.deadline import OutOfTimeError
from graph.errors import FormatError
from graph.events import EventKind
from graph.nodes.module import budget_stop, call_module, read_output, turns_stop
from graph.parsing import parse
from graph.records import Fault, Plan, StopReason
from graph.state import FlowState, FlowUpdate
from graph.tool_names import resolve_tool


async def planner(state: FlowState, runtime: Runtime[Context]) -> FlowUpdate:
    """Open a turn with a plan, or with the fault that the planner sees in its next turn."""
    turn = len(state.get("turns", []))
    if stop := turns_stop(state, turn) or budget_stop(state, runtime.context):
        return {"stop": stop}
    try:
        call = await call_module("planner", state, runtime, turn)
    except OutOfTimeError:
        return {"stop": StopReason.MAX_SECONDS}
    offered = [tool.name for tool in state["setup"].tools]
    plan = read_output(call, lambda text: read_plan(text, offered))
    kind = EventKind.FAULT if isinstance(plan, Fault) else EventKind.PLAN
    runtime.context.tell(kind, plan, turn=turn)
    update: FlowUpdate = {"turns": [plan], "calls": [call]}
    if isinstance(plan, Fault) and (stop := turns_stop(state, turn + 1)):
        update["stop"] = stop
    return update


def read_plan(text: str, offered: Sequence[str]) -> Plan:
    """Parse a plan and resolve the tool that it names.

    Raises:
        FormatError: not a plan, an empty sub-goal, or no offered tool is meant.
    """
    plan = parse(text, Plan)
    tool = resolve_tool(plan.tool, offered)
    if tool is None:
        raise FormatError(f"There is no tool {plan.tool[:60]!r}. Choose one of: {', '.join(offered)}.")
    if not plan.sub_goal.strip():
        raise FormatError("The sub-goal was empty. Say what the tool has to find out or compute.")
    return plan.model_copy(update={"tool": tool})
