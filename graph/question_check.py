"""Whether a question, which is never cut, leaves room in the prompt of every module. Checked before its run begins."""

from collections.abc import Mapping

from graph.config import Role
from graph.errors import ConfigError
from graph.fit import LEAST_CHARS, tokens_of
from graph.models.client import RoleModel
from graph.prompt import Message
from graph.records import Plan, Turn
from graph.rendering import messages_for
from graph.state import FlowState, Request, Setup
from graph.tools.registry import Toolbox
from graph.weight import CHARS_PER_TOKEN, weight

_ROLES: tuple[Role, ...] = ("analyzer", "planner", "executor", "verifier", "generator")
_SHORT = 1 / 8
"""Of the room as it is estimated: the estimate of a question is never wrong by so much."""


async def check_question(models: Mapping[Role, RoleModel], toolbox: Toolbox, request: Request) -> None:
    """Check, with the tokens that the servers count, that a question takes at most half the room that it finds.

    Costs no request for a question that is short for its models. Models whose servers do not count are left to the
    estimate in `graph.limits`.

    Raises:
        ConfigError: it takes more, or a model's context is too small for its prompt as it is.
    """
    setup = Setup(tools=toolbox.describe())
    for role in _ROLES:
        model = models[role]
        if model.context is None or model.counter is None or not _asked(role, setup, request):
            continue
        room = model.context - model.config.max_tokens
        bare = _opening(role, setup, request.model_copy(update={"question": "?"}))
        estimated = room * CHARS_PER_TOKEN - sum(weight(message["content"]) for message in bare)
        if weight(request.question) > estimated * _SHORT:
            await _count(model, bare, _opening(role, setup, request), room)


async def _count(model: RoleModel, bare: list[Message], whole: list[Message], room: int) -> None:
    fixed = await tokens_of(model, bare)
    if fixed >= room:
        raise ConfigError(
            f"The {model.role}'s prompt takes {fixed:,} tokens without a question, and its answer up to "
            f"{model.config.max_tokens:,}: more than the context of {model.config.model}, {model.context:,}; set "
            f"models.{model.role}.max_tokens lower, offer fewer tools, or take a model with more."
        )
    question, most = await tokens_of(model, whole) - fixed + 1, (room - fixed) // 2
    if question > most:
        raise ConfigError(
            f"The question has {question:,} tokens; the {model.role}'s model ({model.config.model}) takes at most "
            f"{most:,}: shorten it."
        )


def _asked(role: Role, setup: Setup, request: Request) -> bool:
    """Whether a run of this setup calls the role at all."""
    return bool(setup.tools) or role == "generator" or (role == "analyzer" and bool(request.history))


def _opening(role: Role, setup: Setup, request: Request) -> list[Message]:
    """Return the shortest prompt that the role may be sent, with the tool whose card is the longest."""
    tools = sorted(setup.tools, key=lambda tool: len(tool.model_dump_json()))
    turn = Turn(plan=Plan(sub_goal="?", tool=tools[-1].name if tools else ""))
    state: FlowState = {"request": request, "setup": setup, "turns": [turn]}
    return messages_for(role, state, 0, LEAST_CHARS)
