"""The doctor's checks of models and their servers."""

import asyncio
import importlib.util
import os
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentflow.finding import Finding

if TYPE_CHECKING:
    import httpx

    from graph.config import FlowConfig, ModelConfig, Role
    from graph.models.server import ServerInfo
    from graph.models.vllm_facts import VLLMFacts
    from graph.policies.policy import Policy
    from graph.policies.registry import PolicyRegistry

_SECONDS = 10.0
_SERVER = "planner's server"


async def examine_models(config: "FlowConfig") -> AsyncIterator[Finding]:
    """Check every model that `config` uses, and what stands in the way of training the planner."""
    from graph.config import ROLES

    groups: dict[tuple[str, str | None, str | None], list[Role]] = {}
    for role in ROLES:
        model = config.models.of(role)
        groups.setdefault((model.model, model.base_url, model.api_key_env), []).append(role)
    for roles in groups.values():
        model = config.models.of(roles[0])
        subject = f"model of {', '.join(roles) if len(roles) < len(ROLES) else 'all roles'}"
        if model.embedded:
            yield await asyncio.to_thread(_engine, config, subject)
        elif model.base_url is None:
            yield await _provider(roles[0], model, subject)
        else:
            async for finding in _server(config, roles, model, subject):
                yield finding
    for finding in _sampling(config):
        yield finding


def _engine(config: "FlowConfig", subject: str) -> Finding:
    from graph.engine import engine_status
    from graph.engine.model_file import check_memory, model_file
    from graph.errors import ConfigError

    if importlib.util.find_spec("xllamacpp") is None:
        remedy = 'run `pip install "agentflow[local]"`, or set base_url of a model server'
        return Finding(subject, "broken", f"the embedded engine is not installed: {remedy}.")
    try:
        file = model_file(config.local)
        running = engine_status(config.local)
        if running is None:
            check_memory(file, config.local)
    except ConfigError as error:
        return Finding(subject, "broken", str(error))
    state = f"runs at {running.base_url}" if running else "starts when it is needed"
    return Finding(subject, "ok", f"{file.name} (embedded), {state}")


async def _provider(role: "Role", model: "ModelConfig", subject: str) -> Finding:
    from graph.errors import ConfigError
    from graph.models.factory import check_role

    try:
        await check_role(role, model)
    except ConfigError as error:
        return Finding(subject, "broken", str(error))
    return Finding(subject, "ok", model.model)


async def _server(
    config: "FlowConfig", roles: "list[Role]", model: "ModelConfig", subject: str
) -> AsyncIterator[Finding]:
    import httpx

    from graph.errors import ConfigError, ModelError
    from graph.models.factory import check_role
    from graph.models.server import probe_server
    from graph.models.vllm_facts import vllm_facts

    assert model.base_url is not None
    key = os.environ.get(model.api_key_env or "")
    async with httpx.AsyncClient(timeout=_SECONDS) as http:
        try:
            await check_role(roles[0], model)
            info = await probe_server(model.base_url, key, http, key_name=model.api_key_env)
        except ConfigError as error:
            yield Finding(subject, "broken", str(error))
            return
        yield Finding(subject, "ok", f"{model.model} at {model.base_url} ({await _about(info, http, key)})")
        if "planner" not in roles:
            return
        if info.kind != "vllm":
            no_ids = (
                f"{model.base_url} is no vLLM server and returns no token ids: its runs give questions, no samples."
            )
            yield Finding("training", "note", no_ids)
            return
        try:
            facts = await vllm_facts(model.base_url, model.model, http, key=key)
        except ModelError as error:
            yield Finding(_SERVER, "note", f"what it is set to could not be found out: {error}")
            return
    for finding in _vllm(config, model.base_url, facts):
        yield finding


async def _about(info: "ServerInfo", http: "httpx.AsyncClient", key: str | None) -> str:
    """Return what a server is, in words."""
    root = info.base_url.rstrip("/").removesuffix("/v1")
    if info.kind == "vllm":
        version = (await _json(http, f"{root}/version", key)).get("version")
        kind = f"vLLM {version}" if version else "vLLM"
        context = info.context
    elif info.kind == "llamacpp":
        props = await _json(http, f"{root}/props", key)
        kind = f"llama.cpp {props.get('build_info', '')}".rstrip()
        context = (props.get("default_generation_settings") or {}).get("n_ctx") or info.context
    else:
        kind, context = "OpenAI-compatible", info.context
    return f"{kind}, context {context:,} tokens" if context else f"{kind}, context unknown"


async def _json(http: "httpx.AsyncClient", url: str, key: str | None) -> dict[str, Any]:
    import httpx

    try:
        response = await http.get(url, headers={"Authorization": f"Bearer {key}"} if key else {})
        found = response.json() if response.is_success else {}
    except (httpx.HTTPError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _vllm(config: "FlowConfig", base_url: str, facts: "VLLMFacts") -> Iterator[Finding]:
    """Tell how the planner's server is set, and what of it would make training wrong."""
    from graph.models.sampling_check import server_faults

    can = "can" if facts.runtime_adapters else "cannot" if facts.runtime_adapters is False else "may or may not"
    held = ", ".join(sorted(facts.adapters)) or "none"
    yield Finding(_SERVER, "ok", f"base model {facts.base}; adapters {can} be loaded while it runs, loaded: {held}")
    mode = facts.logprobs or "of a kind that its answers do not tell"
    ids = "returned" if facts.returns_ids else "not returned"
    yield Finding(_SERVER, "ok", f"log-probabilities {mode}; token ids {ids}")
    if facts.own_defaults:
        defaults = "other programs' calls that leave sampling out get the model's own defaults; AgentFlow's do not"
        yield Finding(_SERVER, "ok", defaults)
    if facts.weights is not None:
        yield _development(base_url, facts.weights)
    yield from _policy(config, facts)
    for fault in server_faults(facts):
        yield Finding("training", "note", fault)


def _development(base_url: str, weights: str) -> Finding:
    from graph.policies.weights import BASE_VERSION

    held = "its own" if weights == BASE_VERSION else f"those of {weights}"
    text = f"development endpoints are on, full weights can be loaded; it holds {held}"
    if urlsplit(base_url).hostname in {"127.0.0.1", "localhost", "::1"}:
        return Finding(_SERVER, "ok", text)
    return Finding(_SERVER, "note", f"{text}. Whoever reaches it can change them, without a key: keep it unreachable.")


def _policy(config: "FlowConfig", facts: "VLLMFacts") -> Iterator[Finding]:
    """Tell which policy answers the planner's calls."""
    from graph.errors import AgentFlowError
    from graph.policies.registry import PolicyRegistry
    from graph.policies.settings import BASE, PROMOTED

    use = config.policies.use
    try:
        registry = PolicyRegistry(config.policies.directory)
        name = registry.promoted() if use == PROMOTED else None if use == BASE else use
        if name is None:
            yield _other_weights(facts) or Finding(
                "policy", "ok", "the model as it is" + ("" if use == BASE else "; none is promoted")
            )
            return
        policy = registry.get(name)
    except AgentFlowError as error:
        yield Finding("policy", "broken", str(error))
        return
    yield _in_force(policy, registry, facts, explicit=use != PROMOTED)


def _in_force(policy: "Policy", registry: "PolicyRegistry", facts: "VLLMFacts", *, explicit: bool) -> Finding:
    """Tell whether the planner's server answers as the version that is asked for."""
    from graph.policies.fit import misfit

    name = policy.full_name
    if facts.base is not None and (why := misfit(policy, facts.base)):
        if explicit:
            return Finding("policy", "broken", f"{name} cannot be used: {why}; set policies.use to another.")
        return Finding("policy", "note", f"{name} is not used: {why}; promote another, or base.")
    if policy.kind == "weights":
        if facts.weights == name:
            return Finding("policy", "ok", f"{name} is loaded")
        return Finding("policy", "broken", f"the server does not hold {name}: run `agentflow policies load {name}`.")
    if other := _other_weights(facts):
        return other
    held = facts.adapters.get(name)
    if held is not None and held != str(registry.path(name).resolve()):
        return Finding(
            "policy",
            "broken",
            f"the server holds another {name}, from {held}: unload it, or add yours as a new version.",
        )
    if held is not None:
        return Finding("policy", "ok", f"{name} is loaded")
    if facts.runtime_adapters is False:
        return Finding("policy", "broken", f"the server cannot load {name}: start it with `agentflow serve`.")
    return Finding("policy", "ok", f"{name} is not loaded; the next question loads it")


def _other_weights(facts: "VLLMFacts") -> Finding | None:
    """Tell where weights of another version are in the way of the model as it is, and of its adapters."""
    from graph.policies.weights import BASE_VERSION

    if facts.weights in {None, BASE_VERSION}:
        return None
    return Finding(
        "policy", "broken", f"the server holds the weights of {facts.weights}: run `agentflow policies load base`."
    )


def _sampling(config: "FlowConfig") -> Iterator[Finding]:
    """Tell which of the planner's settings would make training wrong; the embedded engine is not trained on."""
    from graph.models.sampling_check import sampling_faults

    planner = config.models.of("planner")
    if not planner.embedded:
        for fault in sampling_faults(planner):
            yield Finding("training", "note", fault)
