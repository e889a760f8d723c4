"""The analyzer: reads the question once, before the turns."""

from langgraph.runtime import Runtime

from graph.context import Context
from graph.deadline import OutOfTimeError
from graph.events import EventKind
from graph.nodes.module import budget_stop, call_module, read_output
from graph.parsing import parse
from graph.records import Fault, QueryAnalysis, StopReason
from graph.state import FlowState, FlowUpdate
from graph.tool_names import resolve_tool


async def analyzer(state: FlowState, runtime: Runtime[Context]) -> FlowUpdate:
    """Write the analysis; one that cannot be read is left out, and the planner works from the question alone."""
    if stop := budget_stop(state, runtime.context):
        return {"stop": stop}
    try:
        call = await call_module("analyzer", state, runtime, -1)
    except OutOfTimeError:
        return {"stop": StopReason.MAX_SECONDS}
    analysis = read_output(call, lambda text: parse(text, QueryAnalysis))
    if isinstance(analysis, Fault):
        runtime.context.tell(EventKind.FAULT, analysis)
        return {"calls": [call]}
    offered = [tool.name for tool in state["setup"].tools]
    tools = dict.fromkeys(name for tool in analysis.tools if (name := resolve_tool(tool, offered)))
    question = analysis.question if state["request"].history else None
    analysis = analysis.model_copy(update={"tools": tuple(tools), "question": question or None})
    runtime.context.tell(EventKind.ANALYSIS, analysis)
    return {"analysis": [analysis], "calls": [call]}
