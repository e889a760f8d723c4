"""New adapters into a running vLLM server: each version has a name and a directory of its own.

vLLM keeps computed prefixes under (adapter name, adapter path). New content under an old pair would be answered from
the old version's cache, silently; and replacing an adapter in place changes calls that are half done. A version is
therefore never replaced: calls to the old one finish on it while new calls name the new one.
"""

import re
from pathlib import Path

import httpx

from graph.errors import ConfigError, ModelError

_VERSIONED = re.compile(r"(?P<policy>[A-Za-z0-9][A-Za-z0-9._-]*)@v(?P<version>[0-9]+)")


def versioned_name(policy: str, version: int) -> str:
    """Return the name of a version, such as `planner@v3`: it names the adapter at the server and its directory."""
    name = f"{policy}@v{version}"
    if not _VERSIONED.fullmatch(name):
        raise ConfigError(
            f"{name!r} names no policy version: use letters, digits, '.', '_' and '-', and a version from 0 on."
        )
    return name


def load_adapter(base_url: str, name: str, path: Path, *, timeout: float = 60.0) -> None:
    """Load the adapter in directory `path` under `name`; a call that asks for model `name` is then answered by it.

    `base_url` ends in `/v1`, as in the configuration of a role. `path` must be as the server sees it, and its last part
    must be `name` (see above). Raises `ConfigError` for a name or path that breaks this rule, `ModelError` where the
    server refuses or cannot be reached, or serves something else.
    """
    path = path.resolve()
    if not _VERSIONED.fullmatch(name):
        raise ConfigError(f"{name!r} names no policy version: use a name like planner@v1.")
    if path.name != name:
        raise ConfigError(
            f"The adapter of {name} must lie in a directory of that name, not in {path}: vLLM caches by path."
        )
    _send("POST", f"{base_url.rstrip('/')}/load_lora_adapter", {"lora_name": name, "lora_path": str(path)}, timeout)
    if loaded_adapters(base_url, timeout=timeout).get(name) != str(path):
        raise ModelError(
            f"The server at {base_url} does not list {name} from {path} after loading it: is it one server?"
        )


def unload_adapter(base_url: str, name: str, *, timeout: float = 60.0) -> None:
    """Unload a version. Calls under way finish; later ones are refused. Raises `ModelError` as `load_adapter` does."""
    _send("POST", f"{base_url.rstrip('/')}/unload_lora_adapter", {"lora_name": name}, timeout)


def loaded_adapters(base_url: str, *, timeout: float = 60.0) -> dict[str, str]:
    """Return the server's adapters: path by name. Raises `ModelError` as `load_adapter` does."""
    models = _send("GET", f"{base_url.rstrip('/')}/models", None, timeout).json()["data"]
    return {model["id"]: model["root"] for model in models if model.get("parent")}


def _send(method: str, url: str, body: dict[str, str] | None, timeout: float) -> httpx.Response:
    try:
        response = httpx.request(method, url, json=body, timeout=timeout)
    except httpx.TransportError as error:
        raise ModelError(f"No answer from the model server at {url}: start it, or correct its address.") from error
    if response.is_error:
        raise ModelError(f"The model server refused {url} ({response.status_code}): {_message(response)}")
    return response


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return response.text[:300]
