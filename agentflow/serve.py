"""`agentflow serve`: a model on vLLM, until Ctrl-C."""

import asyncio
import os
import re
import time
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.console.terminal import PlainConsole, complain
from agentflow.interruption import handling_signals
from agentflow.options import ConfigFile, Overrides, settings

if TYPE_CHECKING:
    from graph.policies.registry import PolicyRegistry
    from graph.serve_settings import ServeSettings
    from training.serve import VLLMServer

_PORT = 8000
_LOGS = Path(".agentflow/serve")


def serve(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Directory in Hugging Face format, or name on the hub.")
    ],
    flags: Annotated[
        list[str] | None, typer.Argument(metavar="-- VLLM_FLAGS", help="Further flags of vLLM.", show_default=False)
    ] = None,
    adapter: Annotated[
        str | None, typer.Option(help="Load this too: a version of the registry, or a directory, which is added to it.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="0 for a free one.", show_default="serve.port, else 8000")] = None,
    name: Annotated[
        str | None, typer.Option(help="What calls ask for it by.", show_default="serve.name, else planner")
    ] = None,
    full_weights: Annotated[
        bool, typer.Option("--full-weights", help="Take policies of full weights too: development endpoints are on.")
    ] = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Serve a model with vLLM, set up so that its planner can be trained, until Ctrl-C."""
    from graph.policies.registry import PolicyRegistry
    from training.serve import VLLMServer
    from training.serve_adapter import adapter_version
    from training.serve_checks import check_model

    config = settings(context, config_file, overrides).config
    model = os.path.abspath(os.path.expanduser(model)) if Path(model).expanduser().exists() else model
    given = _given(config.serve, flags or [], port=port, name=name, full_weights=full_weights)
    check_model(model)
    registry = PolicyRegistry(config.policies.directory)
    version = None
    if adapter is not None:
        version, given = adapter_version(adapter, model, registry, given)
    server = VLLMServer(model, given, log=_log_file(model))
    _warn(given)
    received: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    with handling_signals(stop):
        try:
            try:
                _run(server, registry, version)
            finally:
                server.stop()
        except KeyboardInterrupt:
            complain("Stopped.")
            raise typer.Exit(128 + received[0]) from None


def _run(server: "VLLMServer", registry: "PolicyRegistry", version: str | None) -> None:
    """Start the server, say how to use it, and wait for its end."""
    from training.serve_adapter import load_version

    console = PlainConsole()
    start = time.monotonic()
    with _Progress(console, f"Starting vLLM with {server.model} (log: {server.log}).") as progress:
        server.start(progress)
    if version is not None:
        asyncio.run(load_version(server, registry, version))
    console.print(_ready(server, registry, version, time.monotonic() - start), soft_wrap=True)
    server.wait()


class _Progress:
    """Shows what a starting server does: a line that changes on a terminal, else a line for each stage."""

    def __init__(self, console: PlainConsole, first_line: str) -> None:
        self._console = console
        self._first_line = first_line
        self._status = console.status("") if console.live else None
        self._said = ""

    def __enter__(self) -> "_Progress":
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, stage: str) -> None:
        if stage == self._said:
            return
        if not self._said:
            self._console.print(self._first_line, soft_wrap=True)
        self._said = stage
        if self._status:
            self._status.update(stage)
        else:
            self._console.print(f"  {stage}", soft_wrap=True)


def _given(
    base: "ServeSettings", flags: list[str], *, port: int | None, name: str | None, full_weights: bool
) -> "ServeSettings":
    """Return the settings with the options of the command over them.

    Raises:
        ConfigError: an option does not fit.
    """
    from pydantic import ValidationError

    from graph.errors import ConfigError

    if flags and not flags[0].startswith("-"):
        raise ConfigError(f"{flags[0]!r} is no flag: give one model, and flags of vLLM after --.")
    changes: dict[str, object] = {"flags": (*base.flags, *flags), "full_weights": full_weights or base.full_weights}
    changes["port"] = port if port is not None else base.port if base.port is not None else _PORT
    if name is not None:
        changes["name"] = name
    try:
        return type(base).model_validate({**base.model_dump(), **changes})
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--{first['loc'][0]} does not fit: {first['msg'].lower()}.") from error


def _ready(server: "VLLMServer", registry: "PolicyRegistry", version: str | None, seconds: float) -> str:
    """Return what to put into the configuration so that the server is used."""
    from training.vllm_command import key_variable

    values = {"model": server.settings.name, "base_url": server.base_url}
    if key := key_variable(server.settings):
        values["api_key_env"] = key
    lines = [f"Ready after {seconds:.0f} s. In agentflow.toml:", "", "[models.planner]"]
    lines += [f'{setting} = "{value}"' for setting, value in values.items()]
    options = [f"--set models.planner.{setting}={value}" for setting, value in values.items()]
    if version is not None:
        lines += ["", "[policies]", f'directory = "{registry.directory}"', f'use = "{version}"']
        options += [f"--set policies.directory={registry.directory}", f"--set policies.use={version}"]
    return "\n".join([*lines, "", "Or with a command:", " ".join(options), "", "Ctrl-C stops it."])


def _warn(given: "ServeSettings") -> None:
    """Say who could use or change the server although they should not."""
    from training.vllm_command import key_variable

    if _is_loopback(given.host):
        return
    if key_variable(given) is None:
        complain(f"Whoever reaches {given.host} can use this server: name a key's variable in serve.api_key_env.")
    if given.full_weights:
        complain(
            f"Whoever reaches {given.host} can replace the planner's weights, even without the key, which vLLM asks "
            "for below /v1 only: let nobody but this machine reach the port."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _log_file(model: str) -> Path:
    name = re.sub(r"[^\w.-]+", "-", Path(model).name) or "model"
    return _LOGS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.log"
