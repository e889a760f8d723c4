"""The folder of one engine: its state, locks, log and saved slots.

Engines whose model, adapter, threads or context differ have folders of their own and run side by side. In each:

    state.json    who runs, where it listens and with which key (readable by the user alone)
    start.lock    held while somebody looks for an engine and starts one, and by the engine while it decides to stop
    alive.lock    held by the engine from its first moment to its last. The kernel drops it with the process, so a state
                  left by a killed engine or by the time before a reboot is never mistaken for a live one.
    engine.log    what the engine said since its start
    slots/        saved prompts, read at every start
"""

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import filelock
from pydantic import BaseModel, ConfigDict, ValidationError

from graph.corpus.location import cache_directory
from graph.engine.model_file import AdapterFile, ModelFile
from graph.engine.settings import LocalSettings

_REVISION = 1
"""Raised when this project starts its engines otherwise, so that an earlier release's is not taken for a new one."""


class EngineState(BaseModel):
    """What an engine says of itself in state.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: Literal["starting", "ready"]
    pid: int
    birth: str
    """`machine.birth_mark` of the process: with the pid it names one process for good."""
    started: float
    """Seconds since the epoch."""
    port: int
    """0 while it starts."""
    api_key: str
    model: str
    base: str | None = None
    """As in EngineInfo."""
    threads: int
    context_per_slot: int
    idle_seconds: float


@dataclass(frozen=True)
class EngineHome:
    """Paths and plain reading and writing; no decisions."""

    directory: Path

    @property
    def state_path(self) -> Path:
        """state.json."""
        return self.directory / "state.json"

    @property
    def log_path(self) -> Path:
        """engine.log."""
        return self.directory / "engine.log"

    @property
    def slots(self) -> Path:
        """The folder of the saved slots."""
        return self.directory / "slots"

    def make(self) -> None:
        """Create the folders, closed to other users: saved slots hold prompts, the state holds the key."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.slots.mkdir(exist_ok=True, mode=0o700)

    def start_lock(self) -> filelock.FileLock:
        """The lock around looking and starting."""
        return filelock.FileLock(self.directory / "start.lock")

    def alive_lock(self) -> filelock.FileLock:
        """The lock that a live engine holds."""
        return filelock.FileLock(self.directory / "alive.lock")

    def engine_lives(self) -> bool:
        """Whether a process holds the engine's lock now. To be asked under the start lock, or askers see each other."""
        lock = self.alive_lock()
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            return True
        lock.release()
        return False

    def read_state(self) -> EngineState | None:
        """The state as it stands, which may be that of an engine long gone. None without one, or when it is damaged."""
        try:
            return EngineState.model_validate_json(self.state_path.read_bytes())
        except (OSError, ValidationError):
            return None

    def write_state(self, state: EngineState) -> None:
        """Replace the state whole."""
        descriptor, name = tempfile.mkstemp(dir=self.directory, prefix=".state-")  # mode 0600
        with os.fdopen(descriptor, "w") as file:
            file.write(state.model_dump_json())
        os.replace(name, self.state_path)

    def clear_state(self, pid: int) -> None:
        """Remove the state if it is that of `pid`."""
        state = self.read_state()
        if state is not None and state.pid == pid:
            self.state_path.unlink(missing_ok=True)

    def touch(self) -> None:
        """Tell the engine that somebody is about to use it."""
        os.utime(self.state_path)

    def touched(self) -> int | None:
        """When somebody last did, or the engine wrote its state, in nanoseconds; None without a state."""
        try:
            return self.state_path.stat().st_mtime_ns
        except OSError:
            return None


def engines_directory() -> Path:
    """The folder that holds every engine's home."""
    return cache_directory() / "engine"


def home_of(settings: LocalSettings, model: ModelFile, threads: int, adapter: AdapterFile | None = None) -> EngineHome:
    """The home of the engine that `settings` ask for."""
    parts = [_REVISION, model.identity, threads, settings.context_per_slot]
    key = json.dumps([*parts, adapter.name, adapter.identity] if adapter else parts)
    return EngineHome(engines_directory() / f"{model.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}")


def all_homes() -> list[EngineHome]:
    """Every engine's home on this machine, of engines that run and that do not."""
    try:
        return [EngineHome(path) for path in sorted(engines_directory().iterdir()) if path.is_dir()]
    except OSError:
        return []
