"""Finds where the policies of a planner are served."""

from collections.abc import Callable

import httpx
from langchain_core.language_models import BaseChatModel

from graph.config import FlowConfig, ModelConfig
from graph.engine import EngineInfo
from graph.errors import ConfigError
from graph.models.server import ServerInfo
from graph.policies.choice import Choice, OnNotice
from graph.policies.embedded_policies import EmbeddedPolicies
from graph.policies.held_weights import HeldWeights, ServedBase
from graph.policies.route import PolicySource
from graph.policies.served_policies import ServedPolicies
from graph.policies.vllm_control import VLLMControl


async def open_policies(
    config: FlowConfig,
    planner: ModelConfig,
    server: ServerInfo | None,
    engine: EngineInfo | None,
    http: httpx.AsyncClient,
    *,
    key: str | None,
    open_chat: Callable[[EngineInfo], BaseChatModel],
    on_notice: OnNotice | None = None,
) -> PolicySource | None:
    """Return what decides which policy answers the planner's calls, with the one in force now loaded.

    Args:
        config: the settings in force.
        planner: the planner's.
        server: the planner's, where it has one by `base_url`.
        engine: the embedded one, where any role uses it.
        http: the client that requests go through.
        key: the server's.
        open_chat: opens a client of an embedded engine.
        on_notice: called with a sentence where a promoted policy is not used.

    Returns:
        None where the planner's model has no policies.

    Raises:
        ConfigError: the version that `policies.use` names is not there or cannot be used here.
        ModelError: the server does not load it.
    """
    choice = Choice(config.policies, on_notice=on_notice)
    source: PolicySource
    if planner.embedded and engine is not None:
        source = EmbeddedPolicies(choice, config.local, open_chat, model=engine.model, on_notice=on_notice)
    elif server is not None and (root := server.bases.get(planner.model)) is not None and server.kind == "vllm":
        control = VLLMControl(server.base_url, http, key=key)
        source = ServedPolicies(choice, control, HeldWeights(control), base=planner.model, root=root)
    else:
        _refuse(choice, planner, server)
        return None
    async with source.route():
        return source


def open_base(model: ModelConfig, server: ServerInfo, http: httpx.AsyncClient, *, key: str | None) -> ServedBase | None:
    """Return what tells the weights that a role other than the planner is answered with; None where they are fixed."""
    if server.kind != "vllm" or model.model not in server.bases:
        return None
    return ServedBase(HeldWeights(VLLMControl(server.base_url, http, key=key)), model.model)


def _refuse(choice: Choice, planner: ModelConfig, server: ServerInfo | None) -> None:
    """Say that this planner has no policies, where one is wanted.

    Raises:
        ConfigError: it was asked for by name.
    """
    try:
        policy = choice.wanted()
    except ConfigError:
        if choice.explicit:
            raise
        return
    if policy is None:
        return
    if server is not None and server.kind == "vllm":
        why = f"models.planner.model already names the adapter {planner.model}"
    else:
        why = f"{planner.model} is neither served by vLLM nor the embedded model"
    choice.unusable(policy, why)
