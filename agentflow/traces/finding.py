"""One trajectory by its id, or the beginning of it: from files, or from the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

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
    if not files:
        async with open_existing(config) as database:
            return await _find_stored(database, name)
    (found,) = find_in_files([name], files, on_damage)
    return found or _missing(name, files)


async def find_all(
    config: "FlowConfig", names: Sequence[str], files: Sequence[Path], on_damage: "OnDamage"
) -> list[Found]:
    """Return the trajectories of those names, each of the files, or else of the database.

    Raises:
        ConfigError: one is nowhere, several begin so, or a file cannot be read.
        StorageError: the database is damaged.
    """
    found = find_in_files(names, files, on_damage)
    if all(found):
        return [one for one in found if one]
    if files and not is_there(config):
        return [one or _missing(name, files) for name, one in zip(names, found, strict=True)]
    async with open_existing(config) as database:
        return [one or await _find_stored(database, name) for name, one in zip(names, found, strict=True)]


def find_in_files(names: Sequence[str], files: Sequence[Path], on_damage: "OnDamage") -> list[Found | None]:
    """Return the trajectories of those names, None for one that is not there; the files are read once.

    Of several with the same id the first is taken.

    Raises:
        ConfigError: several begin so, or a file cannot be read.
    """
    from graph.traces.files import read_traces

    searches = [_Search(name) for name in names]
    for file in files:
        for trajectory in read_traces(file, on_damage):
            for search in searches:
                search.look_at(trajectory, file)
            if all(search.exact for search in searches):
                return [search.result() for search in searches]
    return [search.result() for search in searches]


class _Search:
    """Looks for one name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun: Found | None = None
        self._several = False
        self.exact: Found | None = None

    def look_at(self, trajectory: "Trajectory", file: Path) -> None:
        if self.exact or not trajectory.id.startswith(self._name):
            return
        found = Found(trajectory, None, file)
        if trajectory.id == self._name:
            self.exact = found
        self._several = self._several or (self._begun is not None and self._begun.trajectory.id != trajectory.id)
        self._begun = self._begun or found

    def result(self) -> Found | None:
        from graph.errors import ConfigError

        if self._several and not self.exact:
            raise ConfigError(f"Several trajectories begin with {self._name!r}: give more of the id.")
        return self.exact or self._begun


async def _find_stored(database: "Database", name: str) -> Found:
    from graph.stored_run import trajectory_of

    row = await find_run(database, name)
    return Found(await trajectory_of(database, row), row, None)


def _missing(name: str, files: Sequence[Path]) -> NoReturn:
    from graph.errors import ConfigError

    where = ", ".join(map(str, files))
    raise ConfigError(f"There is no trajectory {name!r} in {where}: `agentflow traces list --file …` shows what is.")
