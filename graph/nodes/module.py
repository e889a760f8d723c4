"""What the five modules have in common: one model call, its events, and the budgets around it."""

from collections.abc import Callable
from typing import TypeVar

from langgraph.runtime import Runtime

from graph.context import Context
from graph.deadline import Deadline
from graph.errors import FormatError
from graph.events import EventKind
from graph.fit import Counted, fit
from graph.prompt_ids import prompt_ids_of
from graph.records import Fault, ModelCall, StopReason
from graph.rendering import messages_for
from graph.rerendering import sent_messages
from graph.schemas import schema_for
from graph.state import FlowState

T = TypeVar("T")


async def call_module(
    role: str, state: FlowState, runtime: Runtime[Context], turn: int, *, deadline: Deadline | None = None
) -> ModelCall:
    """Render `role`'s messages, make the call, and stream what happens.

    Raises:
        OutOfTimeError: the run's seconds are used up.
        ModelError: the model server failed, or the prompt cannot be made short enough for its context.
    """
    context = runtime.context
    context.tell(EventKind.MODULE, {"module": role}, turn=turn)
    model = context.models[role]  # type: ignore[index]
    deadline = deadline or context.deadline
    fitted = await fit(
        model,
        lambda memory_chars: messages_for(role, state, turn, memory_chars),
        deadline,
        before=lambda: _call_before(state, role, model.config.model),
    )
    previous = prompt_ids_of(state.get("calls", []), role) if model.returns_ids else []
    call = await model.complete(
        fitted.messages,
        schema=schema_for(role, state, turn),
        deadline=deadline,
        turn=turn,
        on_token=lambda text: context.tell(EventKind.TOKEN, {"module": role, "text": text}, turn=turn),
        previous_ids=next((ids for ids in reversed(previous) if ids is not None), ()),
    )
    call = call.model_copy(update={"memory_chars": fitted.memory_chars})
    shown = call.model_dump(mode="json", exclude={"prompt_rest", "completion_ids", "logprobs", "text"})
    context.tell(EventKind.CALL, shown, turn=turn)
    return call


def _call_before(state: FlowState, role: str, model: str) -> Counted | None:
    """Return the role's latest call of this run, unless another model answered it: the run was resumed with it."""
    call = next((call for call in reversed(state.get("calls", [])) if call.role == role), None)
    if call is None or call.model != model or call.usage.prompt is None:
        return None
    messages = sent_messages(state, call)
    return Counted(messages, call.usage.prompt) if messages is not None else None


def read_output(call: ModelCall, read: Callable[[str], T]) -> T | Fault:
    """Return what `read` makes of a call's text, or the fault that goes into the memory in its place."""
    try:
        return read(call.text)
    except FormatError as error:
        message = str(error)
        if call.finish_reason == "length":
            message += " It was cut off: be shorter."
        return Fault(module=call.role, message=message, output=call.text[:500])


def budget_stop(state: FlowState, context: Context) -> StopReason | None:
    """Return the reason to go to the answer before another module is called, if there is one."""
    if not context.deadline.left():
        return StopReason.MAX_SECONDS
    limit = state["setup"].max_tokens
    if limit is not None and tokens_used(state) >= limit:
        return StopReason.MAX_TOKENS
    return None


def tokens_used(state: FlowState) -> int:
    """Return the prompt and completion tokens of all calls so far, as the servers counted them."""
    return sum((call.usage.prompt or 0) + (call.usage.completion or 0) for call in state.get("calls", []))


def turns_stop(state: FlowState, finished: int) -> StopReason | None:
    """Return MAX_TURNS when `finished` turns are all that the run may take."""
    return StopReason.MAX_TURNS if finished >= state["setup"].max_turns else None
