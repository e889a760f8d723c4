"""The verifier: decides whether the memory suffices to answer."""

from langgraph.runtime import Runtime

from graph.context import Context
from graph.deadline import OutOfTimeError
from graph.events import EventKind
from graph.nodes.module import budget_stop, call_module, read_output, turns_stop
from graph.parsing import parse
from graph.records import Fault, StopReason, Verdict
from graph.state import FlowState, FlowUpdate


async def verifier(state: FlowState, runtime: Runtime[Context]) -> FlowUpdate:
    """Close the turn with a verdict. Output that holds none means: go on."""
    turn = len(state["turns"]) - 1
    if stop := budget_stop(state, runtime.context):
        return {"stop": stop}
    try:
        call = await call_module("verifier", state, runtime, turn)
    except OutOfTimeError:
        return {"stop": StopReason.MAX_SECONDS}
    verdict = read_output(call, lambda text: parse(text, Verdict))
    kind = EventKind.FAULT if isinstance(verdict, Fault) else EventKind.VERDICT
    runtime.context.tell(kind, verdict, turn=turn)
    update: FlowUpdate = {"turns": [verdict], "calls": [call]}
    done = isinstance(verdict, Verdict) and verdict.stop
    if stop := StopReason.VERIFIED if done else turns_stop(state, turn + 1):
        update["stop"] = stop
    return update
