"""Starting an engine and waiting for it. Called under the home's start lock."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

from graph.engine.client import EngineClient
from graph.engine.home import EngineHome, EngineState
from graph.engine.machine import birth_mark
from graph.engine.model_file import AdapterFile, ModelFile, check_memory
from graph.engine.settings import LocalSettings
from graph.errors import ConfigError, SetupError

_START_SECONDS = 120.0
_PAUSE = 0.05


def start(
    home: EngineHome, model: ModelFile, settings: LocalSettings, threads: int, adapter: AdapterFile | None = None
) -> EngineState:
    """Start an engine in `home` and wait until it answers.

    Should this process die meanwhile, the engine starts all the same and the next command finds it. Raises SetupError
    without xllamacpp, ConfigError when there is too little memory or the engine ends before it answers.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise SetupError('The embedded engine is not installed: run `pip install "agentflow[local]"`.')
    check_memory(model, settings, adapter)
    from graph.engine.process import EngineRequest  # imported here: only a start needs it

    request = EngineRequest(
        directory=home.directory,
        model_path=model.path,
        model=adapter.name if adapter else model.name,
        base=model.name if adapter else None,
        adapter_path=adapter.path if adapter else None,
        threads=threads,
        context_per_slot=settings.context_per_slot,
        idle_seconds=settings.idle_seconds,
    )
    with home.log_path.open("w") as log:
        starter = subprocess.Popen(
            [sys.executable, "-P", "-m", "graph.engine.process", request.model_dump_json()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=home.directory,
            env=_environment(),
            start_new_session=True,
        )
    with starter:
        assert starter.stdout is not None
        # One line, not to the end: the engine holds the pipe until it has a log.
        answer = starter.stdout.readline().strip()
    return await_ready(home, pid=int(answer) if answer.isdigit() else None)


def await_ready(home: EngineHome, *, pid: int | None) -> EngineState:
    """The state of the engine that starts or runs in `home`, once it answers; `pid` is its process where known.

    Raises ConfigError when it ends before that, or does not answer.
    """
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        state = home.read_state()
        if state is not None and runs(state):
            if state.phase == "ready":
                if EngineClient(state).healthy():
                    return state
                raise ConfigError(
                    f"The embedded engine does not answer on port {state.port}: run `agentflow engine stop`."
                )
        elif (pid is None or birth_mark(pid) is None) and not home.engine_lives():
            raise ConfigError(
                f"The embedded engine did not start: {_last_words(home)} (the whole log is {home.log_path})."
            )
        time.sleep(_PAUSE)
    raise ConfigError(f"The embedded engine is not ready after {_START_SECONDS:.0f} s: see its log, {home.log_path}.")


def runs(state: EngineState) -> bool:
    """Whether the process that wrote `state` is there: that process, not another that got its pid."""
    return birth_mark(state.pid) == state.birth


def _environment() -> dict[str, str]:
    """The engine's environment: ours, and from a checkout that is not installed the way to it."""
    root = Path(__file__).resolve().parents[2]
    environment = dict(os.environ)
    if (root / "pyproject.toml").is_file():
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(root)]))
    return environment


def _last_words(home: EngineHome) -> str:
    """What the log says of an end: the first line that llama.cpp marks as an error (the rest follow from it), or else
    its last line."""
    try:
        lines = [line.strip() for line in home.log_path.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    if not lines:
        return "it left no word, as a process does that was killed for lack of memory"
    errors = [line.partition(" E ")[2].strip() for line in lines if " E " in line]
    return (errors[0] if errors else lines[-1]).rstrip(".")
