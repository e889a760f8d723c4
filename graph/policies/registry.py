"""The versions of the planner that there are, and which of them is promoted.

    planner@v1/          one version: its files and policy.json. It never changes.
    planner@v2/
    promoted.json        which version is in force, and what was before
    .lock                held while the promotion changes or a version is removed
    .adding.lock         held while a version is copied, which may take minutes, or removed
    .used-planner@v1     a name that was given: it is not given again, whatever became of the version
    .adding-…/           a version that is being copied; what a kill has left of one is removed by the next addition

Several processes, also on several machines with a shared file system, use one registry at once.
"""

import difflib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from graph.errors import ConfigError, StorageError
from graph.policies.policy import Policy, split_name, versioned_name
from graph.policies.policy_files import PolicyFiles
from graph.policies.promoted import PromotedFile, Promotions

_RECORD = "policy.json"
_ADDING = ".adding-"
_USED = ".used-"
_LOCK_SECONDS = 30.0
_COPY_SECONDS = 1800.0
"""For another process to copy its version first."""


class PolicyRegistry:
    """One directory of versions. Opening and reading it creates nothing."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory).absolute()
        self._promoted = PromotedFile(self.directory / "promoted.json")

    def versions(self) -> list[Policy]:
        """Return all versions, by name and number.

        Raises:
            ConfigError: the record of one is damaged.
        """
        return sorted((self.get(name) for name in self.names()), key=lambda policy: (policy.name, policy.version))

    def names(self) -> list[str]:
        """Return the full names of all versions, also of those whose record is damaged."""
        if not self.directory.is_dir():
            return []
        return sorted(path.name for path in self.directory.iterdir() if _is_name(path.name) and path.is_dir())

    def path(self, full_name: str) -> Path:
        """Return the directory of a version, which may not be there.

        Raises:
            ConfigError: `full_name` is no name of a version.
        """
        split_name(full_name)
        return self.directory / full_name

    def get(self, full_name: str) -> Policy:
        """Return the record of a version.

        Raises:
            ConfigError: there is none, or it is damaged.
        """
        file = self.path(full_name) / _RECORD
        try:
            policy = Policy.model_validate_json(file.read_bytes())
        except FileNotFoundError as error:
            raise ConfigError(self._unknown(full_name)) from error
        except OSError as error:
            raise StorageError(f"{file} cannot be read ({error.strerror}): see to its rights.") from error
        except ValidationError as error:
            raise ConfigError(f"{file} is damaged: remove {full_name}, and add it again.") from error
        if policy.full_name != full_name:
            raise ConfigError(f"{file} is that of {policy.full_name}: the directory of a version keeps its name.")
        return policy

    def verify(self, full_name: str) -> Policy:
        """Return the record of a version whose files are what they were when it was added.

        Raises:
            ConfigError: as `get`, or a file is missing, new or changed.
        """
        policy, directory = self.get(full_name), self.path(full_name)
        found = set(_files_in(directory)) - {_RECORD}
        if odd := sorted(found ^ policy.files.keys()):
            what = "is missing" if odd[0] in policy.files else "was put there later"
            raise ConfigError(f"{directory / odd[0]} {what}: a version never changes; add it again as a new one.")
        for name, digest in policy.files.items():
            if _digest(directory / name) != digest:
                raise ConfigError(
                    f"{directory / name} was changed: a version never changes; add it again as a new one."
                )
        return policy

    def add(
        self,
        source: Path,
        *,
        name: str = "planner",
        base_model: str | None = None,
        base_revision: str | None = None,
        parent: str | None = None,
        training_run: str | None = None,
        config_hash: str | None = None,
        metrics: Mapping[str, float] | None = None,
        notes: str = "",
    ) -> Policy:
        """Copy a trained adapter or model into the registry as the next version of `name`.

        Args:
            source: directory of a PEFT adapter or of a model in Hugging Face format, with safetensors.
            name: of the line of versions.
            base_model: directory or hub name of the model that it belongs to; None for what the adapter says.
            base_revision: its revision on the hub.
            parent: the version that training started from.
            training_run: what it came from.
            config_hash: of that run's configuration.
            metrics: what was measured of it.
            notes: for people.

        Raises:
            ConfigError: `source` holds neither, or not whole, or belongs to another model; the name or parent is none.
            StorageError: the registry cannot be written; nothing of this version is left there.
        """
        files = PolicyFiles.read(source, base_model=base_model, base_revision=base_revision)
        versioned_name(name, 0)
        if parent is not None:
            self.get(parent)

        def record(version: int, digests: dict[str, str]) -> Policy:
            return Policy(
                name=name,
                version=version,
                kind=files.kind,
                base_model=files.base_model,
                base_revision=files.base_revision,
                parent=parent,
                training_run=training_run,
                config_hash=config_hash,
                metrics=dict(metrics or {}),
                notes=notes,
                created=round(time.time(), 3),
                files=digests,
            )

        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with self._adding():
                return self._place(files, name, record)
        except OSError as error:
            raise StorageError(
                f"{self.directory} cannot take {source}: {error.strerror or error}; make room there, or set "
                "policies.directory."
            ) from error

    def remove(self, full_name: str) -> None:
        """Remove a version from the disk.

        Raises:
            ConfigError: there is none, or it is promoted.
        """
        if not self.path(full_name).is_dir():
            raise ConfigError(self._unknown(full_name))
        try:
            with self._adding(), self._locked():
                if self.promoted() == full_name:
                    raise ConfigError(
                        f"{full_name} is promoted: promote another version, or base, before it is removed."
                    )
                gone = Path(tempfile.mkdtemp(dir=self.directory, prefix=_ADDING))
                self.path(full_name).rename(gone / full_name)  # at once; the next addition removes what a kill leaves
                shutil.rmtree(gone)
        except OSError as error:
            raise StorageError(
                f"{full_name} cannot be removed from {self.directory} ({error.strerror}): see to its rights."
            ) from error

    def promoted(self) -> str | None:
        """Return the promoted version; None for the model as it is. Cheap enough to ask before every call.

        Raises:
            ConfigError: the record of promotions is damaged.
        """
        return self._promoted.read().current

    def promotions(self) -> Promotions:
        """Return what is promoted and was before. Raises as `promoted`."""
        return self._promoted.read()

    def promote(self, full_name: str | None) -> str | None:
        """Have every process use this version from its next call on, and return what they used; None for the base.

        Raises:
            ConfigError: there is no such version.
        """

        def forward(promotions: Promotions) -> Promotions:
            if full_name is not None:
                self.get(full_name)
            return promotions.promote(full_name)

        before, _ = self._change(forward)
        return before.current

    def rollback(self, *, expected: Promotions | None = None) -> str | None:
        """Go back to what was promoted before and is still there, and return it; None for the model as it is.

        Args:
            expected: what the caller has prepared to go back from.

        Raises:
            ConfigError: nothing was; or something else than `expected` is promoted now.
        """

        def back(promotions: Promotions) -> Promotions:
            if expected not in {None, promotions}:
                raise ConfigError("Another process changed what is promoted meanwhile: look at it, and try again.")
            return promotions.roll_back(self.names())

        _, after = self._change(back)
        return after.current

    def _change(self, change: Callable[[Promotions], Promotions]) -> tuple[Promotions, Promotions]:
        """Return what held before and what holds now."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"{self.directory} cannot be created: {error.strerror}; set policies.directory."
            ) from error
        with self._locked():
            before = self._promoted.read()
            after = change(before)
            if after != before:
                self._promoted.write(after)
            return before, after

    def _place(self, files: PolicyFiles, name: str, record: Callable[[int, dict[str, str]], Policy]) -> Policy:
        for left in self.directory.glob(f"{_ADDING}*"):
            shutil.rmtree(left, ignore_errors=True)
        place = Path(tempfile.mkdtemp(dir=self.directory, prefix=_ADDING))
        try:
            digests = {file: _copy(files.directory / file, place / file) for file in files.names}
            policy = record(self._next_version(name), digests)
            with (place / _RECORD).open("w", encoding="utf-8") as opened:
                opened.write(policy.model_dump_json(indent=2))
                opened.flush()
                os.fsync(opened.fileno())
            place.chmod(0o755)  # a server may run as another user
            (self.directory / f"{_USED}{policy.full_name}").touch()
            place.rename(self.path(policy.full_name))
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return policy

    def _next_version(self, name: str) -> int:
        """Return one more than any that is or was there: servers cache by name, and traces tell of it."""
        used = (path.name.removeprefix(_USED) for path in self.directory.glob(f"{_USED}*"))
        promoted = (change.policy for change in self._promoted.read().history if change.policy)
        known = {*self.names(), *promoted, *filter(_is_name, used)}
        numbers = [version for found, version in map(split_name, known) if found == name]
        return max(numbers, default=0) + 1

    def _unknown(self, full_name: str) -> str:
        names = self.names()
        if not names:
            return (
                f"There is no policy {full_name}: {self.directory} holds none; add one with `agentflow policies add`."
            )
        close = difflib.get_close_matches(full_name, names, n=3) or names[-3:]
        return f"There is no policy {full_name} in {self.directory}: did you mean {', '.join(close)}?"

    def _adding(self) -> AbstractContextManager[None]:
        return _lock(self.directory / ".adding.lock", _COPY_SECONDS)

    def _locked(self) -> AbstractContextManager[None]:
        return _lock(self.directory / ".lock", _LOCK_SECONDS)


@contextmanager
def _lock(file: Path, seconds: float) -> Iterator[None]:
    lock = FileLock(file, timeout=seconds)
    try:
        lock.acquire()
    except Timeout as error:
        raise StorageError(f"Another process keeps {file}: end it, and try again.") from error
    except OSError as error:
        raise StorageError(f"{file} cannot be locked ({error.strerror}): see to its rights.") from error
    try:
        yield
    finally:
        lock.release()


def _is_name(text: str) -> bool:
    try:
        split_name(text)
    except ConfigError:
        return False
    return True


def _files_in(directory: Path) -> list[str]:
    return [str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()]


def _copy(source: Path, target: Path) -> str:
    """Copy a file to the disk, and return the sha256 of what is there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return _digest(target)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
