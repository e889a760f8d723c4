"""What can be wrong with what is to be served, found out before anything is started."""

import json
import os
import re
import socket
from pathlib import Path
from typing import get_args

from graph.errors import ConfigError
from graph.serve_settings import ServeSettings

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_RANKS: tuple[int, ...] = get_args(ServeSettings.model_fields["max_lora_rank"].annotation)


def check_model(model: str) -> None:
    """Check that a model is a directory in Hugging Face format, or may be a name on the hub.

    Raises:
        ConfigError: it is neither.
    """
    path = Path(model)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ConfigError(f"{model} holds no model in Hugging Face format (config.json is missing).")
    elif path.exists() or not _HUB_NAME.fullmatch(model):
        raise ConfigError(
            f"{model} is no model: give a directory with a config.json, or a name on the hub (OWNER/NAME)."
        )


def check_port(host: str, port: int) -> None:
    """Check that a server could listen there.

    Raises:
        ConfigError: it could not.
    """
    try:
        with socket.create_server((host, port), family=_family(host)):
            pass
    except OSError as error:
        raise ConfigError(f"Port {port} on {host} cannot be used ({_reason(error)}): choose another.") from error


def free_port(host: str) -> int:
    """Return a port that nobody listens on.

    Raises:
        ConfigError: there is no such host here.
    """
    try:
        with socket.create_server((host, 0), family=_family(host)) as probe:
            port: int = probe.getsockname()[1]
            return port
    except OSError as error:
        raise ConfigError(f"{host} cannot be listened on ({_reason(error)}): correct serve.host.") from error


def adapter_rank(directory: Path) -> int:
    """Return the rank of the PEFT adapter in a directory.

    Raises:
        ConfigError: there is none.
    """
    try:
        config = json.loads((directory / "adapter_config.json").read_text(encoding="utf-8"))
        return max([int(config["r"]), *map(int, (config.get("rank_pattern") or {}).values())])
    except FileNotFoundError as error:
        raise ConfigError(f"{directory} holds no PEFT adapter (adapter_config.json is missing).") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{directory}/adapter_config.json is no configuration of a PEFT LoRA adapter.") from error


def fitting_rank(settings: ServeSettings, rank: int) -> ServeSettings:
    """Return the settings with room for adapters of this rank.

    Raises:
        ConfigError: vLLM has no room for so large a rank.
    """
    if rank > _RANKS[-1]:
        raise ConfigError(f"The adapter's rank is {rank}, but vLLM loads adapters up to rank {_RANKS[-1]}.")
    fitting = next(known for known in _RANKS if known >= rank)
    return settings.model_copy(update={"max_lora_rank": max(settings.max_lora_rank, fitting)})


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)  # without the address that create_server adds


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
