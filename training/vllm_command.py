"""The command line and the environment that vLLM is started with."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from graph.errors import ConfigError
from graph.serve_settings import ServeSettings

_PLAIN_SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Models bring sampling defaults of their own (top_k 20 and a repetition penalty, say), which vLLM would apply to every
call that leaves them out: log-probabilities would then not be the policy's."""
_KEY_VARIABLE = "VLLM_API_KEY"
_SETTINGS = {
    "--host": "serve.host",
    "--port": "serve.port",
    "--served-model-name": "serve.name",
    "--api-key": "serve.api_key_env",
}
"""Flags that this program must know the values of, and their settings."""
_REFUSED = ("--uds", "--ssl-keyfile", "--ssl-certfile", "--headless", "--root-path")


def check_flags(flags: Sequence[str]) -> None:
    """Refuse flags of vLLM that belong into settings, or that would put the server where it is not looked for.

    Raises:
        ConfigError: there is one.
    """
    for flag in flags:
        name = flag.partition("=")[0].replace("_", "-")
        if setting := _SETTINGS.get(name):
            raise ConfigError(f"{name} is no flag for vLLM here: set {setting}.")
        if name in _REFUSED:
            raise ConfigError(f"{name} cannot be used here: start vLLM by hand, and set base_url of models.planner.")


def serve_command(python: Path, model: str, settings: ServeSettings, port: int) -> list[str]:
    """Return the command line of the server."""
    s = settings
    command = [str(python), "-m", "vllm.entrypoints.cli.main", "serve", model]
    command += ["--host", s.host, "--port", str(port), "--served-model-name", s.name]
    command += ["--dtype", s.dtype, "--max-num-seqs", str(s.max_num_seqs), "--enable-prefix-caching"]
    if s.max_model_len is not None:
        command += ["--max-model-len", str(s.max_model_len)]
    if s.enforce_eager:
        command.append("--enforce-eager")
    # Two adapters at once: calls finish on the old version while new ones use its successor.
    command += ["--enable-lora", "--max-lora-rank", str(s.max_lora_rank), "--max-loras", "2", "--max-cpu-loras", "4"]
    # With data parallelism there would be one per rank, and vLLM then refuses to load adapters while it runs: each
    # would know only those that it was told of itself.
    command += ["--api-server-count", "1"]
    # Log-probabilities of the distribution that was sampled, temperature included.
    command += ["--logprobs-mode", "processed_logprobs"]
    command += ["--override-generation-config", json.dumps(_PLAIN_SAMPLING)]
    # A JSON grammar with free whitespace lets a weak model emit blanks for ever.
    command += ["--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}']
    command.append("--enable-prompt-tokens-details")
    return [*command, *s.flags]


def serve_environment(model: str, settings: ServeSettings) -> dict[str, str]:
    """Return the variables of the server.

    Raises:
        ConfigError: the key's variable is not set.
    """
    environment = os.environ | {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_CPU_KVCACHE_SPACE": str(settings.cpu_cache_gib),  # on a GPU vLLM does not read it
        "VLLM_SERVER_DEV_MODE": "1" if settings.full_weights else "0",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    # This process's own environment must not leak into another interpreter's.
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        environment.pop(name, None)
    if Path(model).is_dir():
        environment["HF_HUB_OFFLINE"] = "1"
    if key := serve_key(settings):
        environment[_KEY_VARIABLE] = key  # not on the command line, which everybody on the machine can read
    return environment


def key_variable(settings: ServeSettings) -> str | None:
    """Return the variable that holds the server's key; None for a server without one."""
    return settings.api_key_env or (_KEY_VARIABLE if os.environ.get(_KEY_VARIABLE) else None)


def serve_key(settings: ServeSettings) -> str | None:
    """Return the key that calls must bring.

    Raises:
        ConfigError: its variable is not set.
    """
    name = key_variable(settings)
    if name is None:
        return None
    key = os.environ.get(name)
    if not key:
        raise ConfigError(f"The variable {name} is not set: put the server's key into it or into .env.")
    return key
