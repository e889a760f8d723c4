"""What a new run is started with, made of the settings in force."""

import hashlib
from collections.abc import Mapping
from importlib.metadata import version

from graph.config import ROLES, FlowConfig, Role
from graph.limits import memory_chars, room_chars
from graph.models.client import RoleModel
from graph.prompt import load_prompt
from graph.state import Setup
from graph.tools.registry import Toolbox
from graph.warmup import role_prefixes
from graph.weight import weight

_MEMORY_ROLES = frozenset({"planner", "verifier", "generator"})


def question_room(models: Mapping[Role, RoleModel], toolbox: Toolbox) -> int:
    """Return the weight that question and memory may have together where nobody counts tokens.

    Of the models whose servers do, `graph.question_check` takes care.
    """
    contexts = [model.context for model in models.values() if model.context and not model.counter]
    return _room(min(contexts, default=None), models, toolbox)


def memory_room(models: Mapping[Role, RoleModel], toolbox: Toolbox) -> int:
    """Return that weight in the largest context that memory is shown to: calls with less shorten it further."""
    contexts = [model.context for role, model in models.items() if role in _MEMORY_ROLES]
    known = [context for context in contexts if context is not None]
    return _room(max(known) if len(known) == len(contexts) else None, models, toolbox)


def _room(context: int | None, models: Mapping[Role, RoleModel], toolbox: Toolbox) -> int:
    prefixes = role_prefixes(Setup(tools=toolbox.describe())).values()
    return room_chars(
        context,
        max(model.config.max_tokens for model in models.values()),
        max(sum(weight(message["content"]) for message in messages) for messages in prefixes),
    )


def make_setup(
    config: FlowConfig, models: Mapping[Role, RoleModel], toolbox: Toolbox, *, room: int, question: str
) -> Setup:
    """Return what a run of `question` is started with.

    Args:
        config: the settings in force.
        models: the open model of each role.
        toolbox: the tools on offer.
        room: of `memory_room`.
        question: what is asked; it takes of the memory's room.
    """
    budgets = config.budgets
    return Setup(
        tools=toolbox.describe(),
        max_turns=budgets.max_turns if toolbox.tools else 0,  # a turn takes a tool
        max_seconds=budgets.max_seconds,
        max_tokens=budgets.max_tokens,
        memory_chars=budgets.memory_chars or memory_chars(room, question),
        models={role: model.config.model_dump(mode="json") for role, model in models.items()},
        prompts={role: load_prompt(role).digest for role in ROLES},
        config_hash=hashlib.sha256(config.model_dump_json(exclude={"prices", "traces"}).encode()).hexdigest()[:16],
        versions={name: version(name) for name in ("agentflow", "langgraph", "langchain-core")},
    )
