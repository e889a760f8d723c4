"""Opens the models of all roles from the configuration."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from graph.config import ROLES, FlowConfig, ModelConfig, Role
from graph.engine import ROLE_SLOTS, EngineInfo, ensure_engine
from graph.errors import ConfigError
from graph.known_secrets import NO_SECRETS, KnownSecrets
from graph.limits import check_answer
from graph.models.client import Constraint, RoleModel, note_answer, with_schema
from graph.models.server import ServerInfo, probe_server
from graph.models.tokens import counter_for
from graph.policies.opening import open_base, open_policies
from graph.policies.route import PolicySource

OnNotice = Callable[[str], None]

_DEFAULT_SECONDS = 60.0
_PLAIN_SAMPLING: Mapping[str, Mapping[str, Any]] = {
    "llamacpp": {"top_k": 0, "min_p": 0.0},
    "vllm": {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0},
    "other": {},
}
"""Sent to servers that otherwise fill in defaults of their own, or of the model's files: what is sampled is then the
distribution that was asked for, and log-probabilities belong to it."""


@dataclass(frozen=True)
class Models:
    """Open models."""

    by_role: Mapping[Role, RoleModel]


@asynccontextmanager
async def open_models(config: FlowConfig, *, on_notice: OnNotice | None = None) -> AsyncIterator[Models]:
    """Start the embedded engine if a role uses it, and check every server once.

    Raises:
        ConfigError: a server that does not answer, a model that it does not serve, a key that is missing or refused,
            an answer that fills the whole context.
        SetupError: the embedded model has not been fetched.
    """
    configs = {role: config.models.of(role) for role in ROLES}
    secrets = KnownSecrets.of(config)
    # Hundreds of runs share the client: a call that waited for a connection would time out before it was sent.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    hooks = {"response": [note_answer]}
    async with httpx.AsyncClient(timeout=_DEFAULT_SECONDS, limits=limits, event_hooks=hooks) as http:
        engine = None
        if any(model.embedded for model in configs.values()):
            engine = await asyncio.to_thread(ensure_engine, config.local, on_progress=on_notice)
        servers = await _probe(configs, http)
        models: dict[Role, RoleModel] = {}
        planner = configs["planner"]
        policies = await open_policies(
            config,
            planner,
            servers.get(planner.base_url or ""),
            engine,
            http,
            key=_key(planner),
            open_chat=lambda found: _local_chat(_local_config("planner", planner, found), found, http),
            on_notice=on_notice,
        )
        for role, model in configs.items():
            if model.embedded and engine:
                of_role = policies if role == "planner" else None
                models[role] = _open_local(role, model, engine, http, secrets=secrets, policies=of_role)
            elif model.base_url:
                server = servers[model.base_url]
                key = _key(model)
                model = model.model_copy(update={"extra": {**_PLAIN_SAMPLING[server.kind], **model.extra}})
                chat = _openai(model, server.base_url, key, http)
                models[role] = RoleModel(
                    role,
                    model,
                    chat,
                    server,
                    secrets=secrets,
                    policies=policies if role == "planner" else open_base(model, server, http, key=key),
                    context=server.context_of(model.model),
                    counter=counter_for(server, model.model, http, key=key, extra=model.extra),
                )
            else:
                models[role] = _open_provider(role, model, secrets)
        for opened in models.values():
            check_answer(opened)
        yield Models(models)


def _key(config: ModelConfig) -> str | None:
    """Return the role's key.

    Raises:
        ConfigError: its variable is not set.
    """
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env)
    if not key:
        raise ConfigError(
            f"The variable {config.api_key_env} is not set: put the key for {config.model} into it or .env."
        )
    return key


async def _probe(configs: Mapping[Role, ModelConfig], http: httpx.AsyncClient) -> dict[str, ServerInfo]:
    # Once for each key: a server may know one role's and refuse another's.
    firsts = {(config.base_url, config.api_key_env): config for config in configs.values() if config.base_url}
    found = await asyncio.gather(
        *(probe_server(url, _key(config), http, key_name=name) for (url, name), config in firsts.items() if url)
    )
    servers = {url: server for (url, _), server in zip(firsts, found, strict=True) if url}
    for role, config in configs.items():
        server = servers.get(config.base_url or "")
        if server and server.models and server.kind != "llamacpp" and config.model not in server.models:
            raise ConfigError(
                f"The server at {server.base_url} does not serve {config.model!r}: "
                f"set models.{role}.model to one of {', '.join(server.models[:8])}."
            )
    return servers


def _open_local(
    role: Role,
    config: ModelConfig,
    engine: EngineInfo,
    http: httpx.AsyncClient,
    *,
    secrets: KnownSecrets,
    policies: PolicySource | None,
) -> RoleModel:
    named = _local_config(role, config, engine)
    server = ServerInfo(engine.base_url, "llamacpp", (engine.model,), None)
    chat = _local_chat(named, engine, http)
    return RoleModel(
        role,
        named,
        chat,
        server,
        secrets=secrets.including([engine.api_key]),
        policies=policies,
        context=engine.context_per_slot,
        counter=counter_for(server, named.model, http, key=engine.api_key, extra=named.extra),
    )


def _local_config(role: Role, config: ModelConfig, engine: EngineInfo) -> ModelConfig:
    # return_progress: without it the server notices a cancelled request only after the whole prompt was prefilled
    extra = {"id_slot": ROLE_SLOTS[role], "return_progress": True, **_PLAIN_SAMPLING["llamacpp"], **config.extra}
    return config.model_copy(update={"model": engine.model, "extra": extra})


def _local_chat(named: ModelConfig, engine: EngineInfo, http: httpx.AsyncClient) -> BaseChatModel:
    # It closes one kept-alive connection in forty without a word; a new one costs nothing on loopback.
    return _openai(named, engine.base_url, engine.api_key, http, headers={"Connection": "close"})


def _openai(
    config: ModelConfig,
    base_url: str,
    key: str | None,
    http: httpx.AsyncClient,
    *,
    headers: Mapping[str, str] | None = None,
) -> BaseChatModel:
    from graph.models.chat import TokenIdChat  # slow to import: only runs pay for it

    return TokenIdChat(
        model=config.model,
        base_url=base_url,
        api_key=lambda: key or "none",
        temperature=config.temperature,
        top_p=config.top_p,
        max_tokens=config.max_tokens,
        seed=config.seed,
        timeout=config.timeout,
        max_retries=config.max_retries,
        default_headers=dict(headers or {}),
        http_async_client=http,
        stream_usage=True,
    )


def _open_provider(role: Role, config: ModelConfig, secrets: KnownSecrets) -> RoleModel:
    """Open any provider that LangChain knows.

    Raises:
        ConfigError: as `_provider`, or it cannot be held to a schema although the configuration wants that.
    """
    from langchain_openai.chat_models.base import BaseChatOpenAI  # slow to import, as init_chat_model's

    chat = _provider(role, config)
    if config.seed is not None:
        if "seed" in type(chat).model_fields:
            chat = chat.model_copy(update={"seed": config.seed})
        else:  # calls record what was sent
            config = config.model_copy(update={"seed": None})
    constraint: Constraint = "response_format" if isinstance(chat, BaseChatOpenAI) else "provider"
    if constraint == "provider":
        try:
            with_schema(chat, role, {"type": "object", "properties": {}})
        except (NotImplementedError, ValueError, TypeError) as error:
            if config.structured == "json_schema":
                raise ConfigError(
                    f"models.{role}.structured is json_schema, but {config.model!r} cannot be held to a schema: "
                    "set it to auto or off."
                ) from error
            constraint = "none"
    fields = (getattr(chat, name) for name in type(chat).model_fields)
    own = [field.get_secret_value() for field in fields if isinstance(field, SecretStr)]
    return RoleModel(role, config, chat, None, constraint=constraint, secrets=secrets.including(own))


def _provider(role: Role, config: ModelConfig) -> BaseChatModel:
    """Open any provider that LangChain knows.

    Raises:
        ConfigError: the provider is unknown or not installed, or its key is missing.
    """
    from langchain.chat_models import init_chat_model  # slow to import: only runs with such a provider pay for it

    settings: dict[str, Any] = {
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
        "timeout": config.timeout,
        "max_retries": config.max_retries,
    }
    if config.top_p < 1:
        settings["top_p"] = config.top_p
    if key := _key(config):
        settings["api_key"] = key
    try:
        model: BaseChatModel = init_chat_model(config.model, **settings, **config.extra)
    except ImportError as error:
        raise ConfigError(f"models.{role}.model {config.model!r} needs a package: {error}.") from error
    except Exception as error:  # every provider raises its own class for a missing key or an unknown name
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(f"models.{role}.model {config.model!r} cannot be opened: {why}") from error
    return model


async def check_role(role: Role, config: ModelConfig) -> None:
    """Check one role's server, model name and key as `open_models` does; the embedded engine is not started.

    Raises:
        ConfigError: as `open_models`.
    """
    if config.base_url:
        async with httpx.AsyncClient(timeout=_DEFAULT_SECONDS) as http:
            await _probe({role: config}, http)
    elif not config.embedded:
        _open_provider(role, config, NO_SECRETS)
