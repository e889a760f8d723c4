"""A trace: the projection of one run's state that evaluations, training and people read.

Schema version 1. Every trajectory is one question; its model calls hold the exact prompts, rendered again from the
state and checked against the hash that was taken when they were sent.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

from pydantic import Field

from graph.errors import TraceError
from graph.prompt import Message
from graph.prompt_ids import prompt_ids_of
from graph.records import Exchange, Fault, ModelCall, QueryAnalysis, Record, StopReason, Turn, Usage
from graph.rerendering import sent_messages
from graph.state import FlowState

SCHEMA_VERSION: Final = 1


class TracedCall(Record):
    """A model call with its prompt."""

    role: str
    turn: int
    """0-based; -1 outside the turns."""
    model: str
    policy: str | None
    messages: tuple[Message, ...] | None
    """None when they cannot be rendered as they were sent (another version of the prompts)."""
    prompt_hash: str
    text: str
    prompt_ids: tuple[int, ...] | None
    completion_ids: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None
    """Natural logarithms, of the distribution that was sampled; as long as `completion_ids`."""
    finish_reason: str | None
    sampling: dict[str, Any]
    usage: Usage
    seconds: float
    at: float


class Trajectory(Record):
    """One question's run."""

    schema_version: Literal[1] = SCHEMA_VERSION
    id: str
    conversation: str | None = None
    group: str | None = None
    parent: str | None = None
    question: str
    history: tuple[Exchange, ...] = ()
    reference: tuple[str, ...] | None = None
    analysis: QueryAnalysis | None = None
    turns: tuple[Turn, ...] = ()
    calls: tuple[TracedCall, ...] = ()
    answer: str | None = None
    solution: str | None = None
    stop: StopReason
    error: str | None = None
    """What failed, when `stop` is FAILED."""
    reward: float | None = None
    """None: not scored, or not to be scored (failures)."""
    reward_source: str | None = None
    """The scorer's name, `judge` or `human`."""
    tags: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """Names of the offered tools."""
    config_hash: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    created: float = 0.0
    seconds: float = 0.0
    """Spent in model and tool calls."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Every module output that could not be used."""
        return tuple(fault for turn in self.turns for fault in turn.faults)


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
        conversation=request.conversation,
        group=request.group,
        parent=request.parent,
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
        tags=request.tags,
        tools=tuple(tool.name for tool in setup.tools),
        config_hash=setup.config_hash,
        versions=setup.versions,
        created=request.created,
        seconds=round(spent_seconds(state), 3),
    )


def spent_seconds(state: FlowState) -> float:
    """Return the seconds spent in model calls and, turn by turn, in the slowest tool call."""
    models = sum(call.seconds for call in state.get("calls", []) if call.role != "generate")
    tools = sum(max((result.seconds for result in turn.observations), default=0.0) for turn in state.get("turns", []))
    return models + tools


def _traced(state: FlowState, calls: Sequence[ModelCall]) -> list[TracedCall]:
    ids = {role: iter(prompt_ids_of(calls, role)) for role in {call.role for call in calls}}
    return [_trace_call(state, call, next(ids[call.role])) for call in calls]


def _trace_call(state: FlowState, call: ModelCall, prompt_ids: list[int] | None) -> TracedCall:
    found = sent_messages(state, call)
    return TracedCall(
        role=call.role,
        turn=call.turn,
        model=call.model,
        policy=call.policy,
        messages=tuple(found) if found else None,
        prompt_hash=call.prompt_hash,
        text=call.text,
        prompt_ids=tuple(prompt_ids) if prompt_ids is not None else None,
        completion_ids=call.completion_ids,
        logprobs=call.logprobs,
        finish_reason=call.finish_reason,
        sampling=call.sampling,
        usage=call.usage,
        seconds=call.seconds,
        at=call.at,
    )
