"""One trajectory by its id, or the beginning of it: from files, or from the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentflow.storage import find_run, is_there, open_existing

if TYPE_CHECKING:
    from graph.config import FlowConfig
    from graph.storage.database import Database
    from graph.storage.runs import RunRow
    from graph.trace import Trajectory
    from graph.traces.reading import OnDamage


@dataclass(frozen=True)
class Found:
    """A trajectory and where it is from."""

    trajectory: "Trajectory"
    row: "RunRow | None"
    """What the database knows of its run; None for one from a file."""
    file: Path | None


async def find(config: "FlowConfig", name: str, files: Sequence[Path], on_damage: "OnDamage") -> Found:
    """Return the trajectory of that name: of the files if there are any, else of the database.

    Raises:
        ConfigError: there is none, several begin so, or a file cannot be read.
        StorageError: the database is damaged.
    """
    if files:
        from graph.errors import ConfigError

        if found := find_in_files(name, files, on_damage):
            return found
        raise ConfigError(
            f"There is no trajectory {name!r} in {_listed(files)}: `agentflow traces list --file …` shows what is."
        )
    async with open_existing(config) as database:
        return await _find_stored(database, name)


async def find_anywhere(config: "FlowConfig", name: str, files: Sequence[Path], on_damage: "OnDamage") -> Found:
    """Return the trajectory of that name: of the files, or else of the database.

    Raises:
        ConfigError: there is none, several begin so, or a file cannot be read.
        StorageError: the database is damaged.
    """
    if files and (found := find_in_files(name, files, on_damage)):
        return found
    return await find(config, name, [] if is_there(config) else files, on_damage)


def find_in_files(name: str, files: Sequence[Path], on_damage: "OnDamage") -> Found | None:
    """Return the trajectory of that name; None without one. The first of several with the same id is taken.

    Raises:
        ConfigError: several begin so, or a file cannot be read.
    """
    from graph.errors import ConfigError
    from graph.traces.files import read_traces

    begun: Found | None = None
    several = False
    for file in files:
        for trajectory in read_traces(file, on_damage):
            if trajectory.id == name:
                return Found(trajectory, None, file)
            if trajectory.id.startswith(name):
                several = several or (begun is not None and begun.trajectory.id != trajectory.id)
                begun = begun or Found(trajectory, None, file)
    if several:
        raise ConfigError(f"Several trajectories begin with {name!r}: give more of the id.")
    return begun


async def _find_stored(database: "Database", name: str) -> Found:
    from graph.stored_run import trajectory_of

    row = await find_run(database, name)
    return Found(await trajectory_of(database, row), row, None)


def _listed(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))
