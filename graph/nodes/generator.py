"""The generator: answers from the memory, whatever ended the turns."""

from langgraph.runtime import Runtime

from graph.context import Context
from graph.deadline import Deadline, OutOfTimeError
from graph.errors import ModelError
from graph.events import EventKind
from graph.nodes.module import call_module, read_output
from graph.parsing import parse
from graph.records import Answer, Fault, StopReason
from graph.state import FlowState, FlowUpdate


async def generator(state: FlowState, runtime: Runtime[Context]) -> FlowUpdate:
    """Write the answer. Text that holds no answer object is the answer as it stands.

    Raises:
        ModelError: the model server failed, or gave no answer within the generator's own timeout.
    """
    limit = runtime.context.models["generator"].config.timeout
    deadline = Deadline(max(limit, runtime.context.deadline.left()))
    try:
        call = await call_module("generator", state, runtime, -1, deadline=deadline)
    except OutOfTimeError as error:
        raise ModelError(f"The generator gave no answer within {limit:g} s.") from error
    answer = read_output(call, lambda text: parse(text, Answer))
    if isinstance(answer, Fault):
        runtime.context.tell(EventKind.FAULT, answer)
        answer = Answer(solution="", answer=call.text.strip())
    runtime.context.tell(EventKind.ANSWER, answer)
    return {"answer": answer, "calls": [call], "stop": state.get("stop") or StopReason.MAX_TURNS}
