"""The start of every role's prompt that never changes, for an engine to read before the first question."""

from graph.config import ROLES, Role
from graph.prompt import Message
from graph.records import Plan, Turn
from graph.rendering import generate_messages, messages_for
from graph.state import FlowState, Request, Setup

_PLACEHOLDER = "?"


def role_prefixes(setup: Setup) -> dict[Role, list[Message]]:
    """Return messages for each role that differ from a real call's only where the question begins.

    The executor's depend on the tool: a tool that is called with code is taken where one is on offer, as its prompt is
    the longest and its calls are the most frequent. Without tools there is only what answers directly.
    """
    if not setup.tools:
        roles: list[Role] = ["generator"]
    else:
        roles = [role for role in ROLES if role != "generate" or any(tool.name == role for tool in setup.tools)]
    return {role: _prefix(role, setup) for role in roles}


def _prefix(role: Role, setup: Setup) -> list[Message]:
    if role == "generate":
        return generate_messages(_PLACEHOLDER)
    tool = next((tool.name for tool in setup.tools if tool.code_argument), setup.tools[0].name if setup.tools else "")
    turn = Turn(plan=Plan(sub_goal=_PLACEHOLDER, tool=tool))
    state: FlowState = {"request": Request(question=_PLACEHOLDER), "setup": setup, "turns": [turn]}
    return messages_for(role, state, 0)
