"""What an OpenAI-compatible server says about itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from graph.errors import ConfigError

_PROBE_SECONDS = 10.0


@dataclass(frozen=True)
class ServerInfo:
    """One server, as `/models` describes it."""

    base_url: str
    kind: Literal["vllm", "llamacpp", "other"]
    """Only vLLM returns the ids of the tokens that it sampled."""
    models: tuple[str, ...]
    """Empty when the server does not list them."""
    context: int | None
    """Tokens of the smallest context of its models; None when it does not say."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """What vLLM serves without an adapter: the model's directory or name on the hub, by name."""
    contexts: Mapping[str, int] = field(default_factory=dict)
    """Tokens of each model's context by name, where the server says."""
    status: int = 200
    """Of its answer: 5xx from one that is starting, or from a proxy before none."""

    def context_of(self, model: str) -> int | None:
        """Return the tokens of `model`'s context; of an adapter or another name for a model, the smallest there is."""
        return self.contexts.get(model, self.context)


async def probe_server(base_url: str, key: str | None, http: httpx.AsyncClient, *, key_name: str | None) -> ServerInfo:
    """Ask `base_url` for its models.

    Raises:
        ConfigError: nothing answers there, or the key is refused.
    """
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        response = await http.get(f"{base_url.rstrip('/')}/models", headers=headers, timeout=_PROBE_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConfigError(
            f"No model server answers at {base_url} ({type(error).__name__}): start it, or change base_url."
        ) from error
    if response.status_code in {401, 403}:
        named = f"put it into {key_name}" if key_name else "name its variable in api_key_env"
        raise ConfigError(f"The model server at {base_url} wants a key ({response.status_code}): {named}.")
    try:
        listed: Any = response.json().get("data", []) if response.is_success else []
        owners = {model.get("owned_by") for model in listed}
        names = tuple(str(model["id"]) for model in listed)
        contexts = {str(model["id"]): int(model["max_model_len"]) for model in listed if model.get("max_model_len")}
        bases = {str(model["id"]): str(model.get("root")) for model in listed if not model.get("parent")}
    except (ValueError, AttributeError, KeyError, TypeError):
        owners, names, contexts, bases = set(), (), {}, {}
    kind: Literal["vllm", "llamacpp", "other"] = "other"
    if "vllm" in owners:
        kind = "vllm"
    elif "llamacpp" in owners:
        kind = "llamacpp"
        if context := await _llamacpp_context(base_url, headers, http):
            contexts = dict.fromkeys(names, context)
    return ServerInfo(
        base_url, kind, names, min(contexts.values(), default=None), bases, contexts, response.status_code
    )


async def _llamacpp_context(base_url: str, headers: Mapping[str, str], http: httpx.AsyncClient) -> int | None:
    """Return the tokens that one call may hold, of the several that llama.cpp's server answers at once."""
    try:
        root = base_url.rstrip("/").removesuffix("/v1")
        response = await http.get(f"{root}/props", headers=headers, timeout=_PROBE_SECONDS)
        return int(response.json()["default_generation_settings"]["n_ctx"])
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None  # it says so only when it is not told to keep it to itself
