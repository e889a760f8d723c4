"""The adapter that a server is started with.

vLLM caches by an adapter's path, so that only directories that never change may be loaded: those of the registry.
"""

import hashlib
from pathlib import Path

import httpx

from graph.errors import ConfigError
from graph.policies.fit import misfit
from graph.policies.registry import PolicyRegistry
from graph.policies.vllm_control import VLLMControl
from graph.serve_settings import ServeSettings
from training.serve import VLLMServer
from training.serve_checks import adapter_rank, fitting_rank
from training.vllm_command import serve_key

_FILES = ("adapter_config.json", "adapter_model.safetensors")


def adapter_version(
    adapter: str, model: str, registry: PolicyRegistry, settings: ServeSettings
) -> tuple[str, ServeSettings]:
    """Return the version that an adapter is loaded as, and settings with room for it.

    Args:
        adapter: a version of the registry, its directory, or any other, which is added to the registry unless a version
            there holds the same.
        model: the one that is served.
        registry: where versions are kept.
        settings: of the server.

    Raises:
        ConfigError: it is no adapter of this model.
    """
    directory = Path(adapter).expanduser().absolute()
    inside = directory.parent.resolve() == registry.directory.resolve()
    if directory.is_dir() and not inside:
        settings = fitting_rank(settings, adapter_rank(directory))
        known = _same(directory, registry) or registry.add(directory, base_model=model).full_name
    else:
        known = directory.name if inside else adapter
    policy = registry.verify(known)
    if policy.kind != "adapter":
        raise ConfigError(f"{known} is a whole model: serve its directory, {registry.path(known)}.")
    if why := misfit(policy, model):
        raise ConfigError(f"{known} cannot be loaded: {why}.")
    return known, fitting_rank(settings, adapter_rank(registry.path(known)))


async def load_version(server: VLLMServer, registry: PolicyRegistry, version: str) -> None:
    """Load a version on a server that this process has started.

    Raises:
        ModelError: the server refuses.
    """
    async with httpx.AsyncClient(trust_env=False) as http:
        control = VLLMControl(server.base_url, http, key=serve_key(server.settings))
        await control.load_adapter(version, registry.path(version))


def _same(directory: Path, registry: PolicyRegistry) -> str | None:
    """Return the version that holds the same adapter as a directory."""
    try:
        digests = {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in _FILES}
    except OSError:
        return None  # whole or not, the registry tells
    versions = reversed(registry.versions())
    return next((policy.full_name for policy in versions if digests.items() <= policy.files.items()), None)
