"""The messages of a recorded call, rendered again and checked against the hash that was taken when they were sent."""

from graph.prompt import Message, hash_messages
from graph.records import ModelCall
from graph.rendering import generate_messages, messages_for
from graph.state import FlowState


def sent_messages(state: FlowState, call: ModelCall) -> list[Message] | None:
    """Return what was sent in `call`; None where it cannot be rendered any more (another version of the prompts)."""
    return next((m for m in _candidates(state, call) if hash_messages(m) == call.prompt_hash), None)


def _candidates(state: FlowState, call: ModelCall) -> list[list[Message]]:
    if call.role == "executor" and not _offered(state, call.turn):
        return []
    if call.role != "generate":
        return [messages_for(call.role, state, call.turn, call.memory_chars)]
    results = state["turns"][call.turn].observations
    return [generate_messages(str(result.arguments.get("query", "")), call.memory_chars) for result in results]


def _offered(state: FlowState, turn: int) -> bool:
    """Whether the turn's tool is among those of the run: a fork may be offered fewer than the turns that it keeps."""
    plan = state["turns"][turn].plan
    return plan is not None and any(tool.name == plan.tool for tool in state["setup"].tools)
