"""Projects a run's state into its trajectory.

The calls get their exact prompts back, rendered again from the state and checked against the hash that was taken when
they were sent.
"""

from collections.abc import Sequence

from graph.errors import TraceError
from graph.prompt_ids import prompt_ids_of
from graph.records import ModelCall, StopReason
from graph.rerendering import sent_messages
from graph.state import FlowState
from graph.trace import TracedCall, Trajectory, is_finite


def project(run: str, state: FlowState, *, stop: StopReason | None = None, error: str | None = None) -> Trajectory:
    """Project a run's state; `stop` overrides the state's, for runs that did not reach their end.

    Raises:
        TraceError: the state holds no request.
    """
    if "request" not in state:
        raise TraceError(f"The run {run} holds no question: it ended before its first checkpoint.")
    request, setup = state["request"], state["setup"]
    calls, turns = state.get("calls", []), state.get("turns", [])
    analysis = state.get("analysis")
    answer = state.get("answer")
    return Trajectory(
        id=run,
        source=request.source,
        conversation=request.conversation,
        group=request.group,
        parent=request.parent,
        parent_turns=request.parent_turns,
        dataset=request.dataset,
        tags=request.tags,
        question=request.question,
        history=request.history,
        reference=request.reference,
        analysis=analysis[0] if analysis else None,
        turns=tuple(turns),
        calls=tuple(_traced(state, calls)),
        answer=answer.answer if answer else None,
        solution=answer.solution if answer else None,
        stop=stop or state.get("stop") or StopReason.FAILED,
        error=error,
        tools=tuple(tool.name for tool in setup.tools),
        prompts=setup.prompts,
        config_hash=setup.config_hash or None,
        versions=setup.versions,
        created=request.created,
        seconds=round(spent_seconds(state), 3),
    )


def spent_seconds(state: FlowState) -> float:
    """Return the seconds spent in model calls and, turn by turn, in the slowest tool call."""
    models = sum(call.seconds for call in state.get("calls", []) if call.role != "generate")
    tools = sum(max((r.seconds or 0.0 for r in turn.observations), default=0.0) for turn in state.get("turns", []))
    return models + tools


def _traced(state: FlowState, calls: Sequence[ModelCall]) -> list[TracedCall]:
    ids = {role: iter(prompt_ids_of(calls, role)) for role in {call.role for call in calls}}
    return [_trace_call(state, call, next(ids[call.role])) for call in calls]


def _trace_call(state: FlowState, call: ModelCall, prompt_ids: list[int] | None) -> TracedCall:
    found = sent_messages(state, call)
    usable = call.logprobs is not None and is_finite(call.logprobs)
    return TracedCall(
        role=call.role,
        turn=call.turn,
        model=call.model,
        policy=call.policy,
        messages=tuple(found) if found else None,
        prompt_hash=call.prompt_hash,
        memory_chars=call.memory_chars,
        text=call.text,
        prompt_ids=tuple(prompt_ids) if prompt_ids is not None else None,
        completion_ids=call.completion_ids,
        logprobs=call.logprobs if usable else None,
        finish_reason=call.finish_reason,
        sampling=call.sampling,
        usage=call.usage,
        seconds=call.seconds,
        first_token_seconds=call.first_token_seconds,
        at=call.at,
    )
