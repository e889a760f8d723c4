"""Finding, starting, warming and stopping engines. Everything here blocks; an asynchronous caller gives it a thread."""

import os
import signal
import time
from collections.abc import Callable, Mapping

import filelock

from graph.engine.client import EngineClient
from graph.engine.home import EngineHome, EngineState, all_homes, home_of
from graph.engine.info import ROLE_SLOTS, EngineInfo
from graph.engine.launch import await_ready, runs, start
from graph.engine.machine import usable_cores
from graph.engine.model_file import AdapterFile, model_file
from graph.engine.settings import LocalSettings
from graph.engine.slots import Messages, warm
from graph.errors import ConfigError, SetupError

_STOP_SECONDS = 10.0
_LOCK_SECONDS = 180.0
"""Longer than a start may take."""
_PAUSE = 0.05


def ensure_engine(
    settings: LocalSettings,
    *,
    adapter: AdapterFile | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> EngineInfo:
    """The engine that `settings` ask for, started unless it runs and is well.

    With `adapter` it is one of its own, which applies the adapter to all it is asked and has a single slot. Commands
    that call this at once get the same engine. Raises SetupError when the model or xllamacpp is missing,
    ConfigError when the model does not fit into memory or the engine does not start.
    """
    model, threads = model_file(settings), _threads(settings)
    home = home_of(settings, model, threads, adapter)
    try:
        home.make()
        with home.start_lock().acquire(timeout=_LOCK_SECONDS):
            state = _running_state(home)
            if state is None:
                if on_progress is not None:
                    named = f"{model.name} with {adapter.name}" if adapter else model.name
                    on_progress(f"Starting the embedded model {named}")
                state = start(home, model, settings, threads, adapter)
            if state.idle_seconds != settings.idle_seconds:
                state = state.model_copy(update={"idle_seconds": settings.idle_seconds})
                home.write_state(state)
            home.touch()
            return _info(state)
    except filelock.Timeout as error:
        raise ConfigError(
            f"Another command has been starting the embedded engine for {_LOCK_SECONDS:.0f} s: end it and try again."
        ) from error
    except OSError as error:
        reason = error.strerror or error
        raise SetupError(
            f"The embedded engine cannot use {home.directory} ({reason}): make room there, or set AGENTFLOW_CACHE_DIR "
            "to a folder that can be written."
        ) from error


def engine_status(settings: LocalSettings) -> EngineInfo | None:
    """The engine that `settings` ask for if it runs and answers, else None. Raises as ensure_engine for the model."""
    return _answering(home_of(settings, model_file(settings), _threads(settings)))


def running_engines() -> list[EngineInfo]:
    """Every engine of this user that answers, whatever settings it was started with."""
    return [info for info in map(_answering, all_homes()) if info is not None]


def stop_engine(settings: LocalSettings | None = None) -> bool:
    """Stop the engine that `settings` ask for, or every one; True if one ran. Requests under way are broken off."""
    homes = all_homes() if settings is None else [home_of(settings, model_file(settings), _threads(settings))]
    stopped = False
    for home in homes:
        if home.directory.is_dir():
            with home.start_lock().acquire(timeout=_LOCK_SECONDS):
                stopped = _stop(home) or stopped
    return stopped


def warm_slots(settings: LocalSettings, prompts: Mapping[str, Messages]) -> dict[str, int]:
    """Have each role's unchanging prompt read and saved, so that every engine from now on starts with it.

    `prompts` maps roles of ROLE_SLOTS to the messages that begin each of their calls. What is saved already costs
    nothing. Returns the tokens of each prompt that was read now. Raises as ensure_engine, and ModelError.
    """
    unknown = prompts.keys() - ROLE_SLOTS.keys()
    if unknown:
        raise ConfigError(
            f"There is no engine slot for {', '.join(sorted(unknown))}: roles are {', '.join(ROLE_SLOTS)}."
        )
    info = ensure_engine(settings)
    home = home_of(settings, model_file(settings), info.threads)
    state = home.read_state()
    if state is None or state.pid != info.pid:
        raise ConfigError("The embedded engine was stopped meanwhile: run the command again.")
    return warm(home, EngineClient(state), prompts)


def _threads(settings: LocalSettings) -> int:
    return settings.threads or max(1, usable_cores() - 1)


def _info(state: EngineState) -> EngineInfo:
    return EngineInfo(
        base_url=f"http://127.0.0.1:{state.port}/v1",
        api_key=state.api_key,
        model=state.model,
        base=state.base,
        pid=state.pid,
        port=state.port,
        started=state.started,
        threads=state.threads,
        context_per_slot=state.context_per_slot,
        idle_seconds=state.idle_seconds,
    )


def _answering(home: EngineHome) -> EngineInfo | None:
    state = home.read_state()
    if state is None or state.phase != "ready" or not runs(state) or not EngineClient(state).healthy():
        return None
    return _info(state)


def _running_state(home: EngineHome) -> EngineState | None:
    """The state of the engine that runs in `home`, or None.

    One that a killed command left half started is waited for; one that does not answer is ended.
    """
    if not home.engine_lives():
        home.state_path.unlink(missing_ok=True)
        return None
    try:
        return await_ready(home, pid=None)
    except ConfigError:
        _stop(home, signals=(signal.SIGKILL,))
        return None


def _stop(home: EngineHome, *, signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGKILL)) -> bool:
    """End the engine in `home`, by force if it must be. True if one ran. To be called under the start lock."""
    if not home.engine_lives():
        home.state_path.unlink(missing_ok=True)
        return False
    found: EngineState | None = None
    for number in signals:
        deadline = time.monotonic() + _STOP_SECONDS
        signalled = False
        while time.monotonic() < deadline:
            # An engine in its first moments holds its lock but has not said who it is.
            found = home.read_state() or found
            if not signalled and found is not None and runs(found):
                os.kill(found.pid, number)
                signalled = True
            time.sleep(_PAUSE)
            # It lets go of its lock a moment before it is gone.
            if not home.engine_lives() and (found is None or not runs(found)):
                home.state_path.unlink(missing_ok=True)
                return True
    raise ConfigError(
        f"An engine holds {home.directory} but runs where this command cannot end it, perhaps in another container: "
        "end it there, or set AGENTFLOW_CACHE_DIR to a folder of your own."
    )
