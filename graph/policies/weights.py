"""Full weights for a running vLLM server: pause, reload from disk, reset the prefix cache, resume.

Calls under way end under the old weights; later ones wait for the new. A failed reload is undone: as vLLM keeps what a
reload had buffered when it failed, which would ruin the next, an empty reload first puts an end to it.

The server keeps a mark of what it holds, which every push changes: a call that saw one mark before and after was
answered by one version, whatever was pushed meanwhile. Pushes take turns through a lock file, which holds for the
machines that share its file system; data-parallel replicas of one vLLM server are all reached, several servers behind
one address are not.
"""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import AsyncFileLock, Timeout
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from graph.errors import ConfigError, ModelError
from graph.policies.vllm_control import VLLMControl
from graph.policies.weights_check import Checkpoint, local_checkpoint

BASE_VERSION = "default"
"""What a server holds that was given no weights since it was started: vLLM's own word."""
LOADING = "loading"
"""What a server holds in the middle of a push; also after a push that was killed."""


async def serving_mark(control: VLLMControl) -> str | None:
    """Return the server's mark of the weights that it holds; None where it takes no new weights.

    Raises:
        ModelError: it does not answer.
    """
    response = await control.request("GET", "/weight_info", absent=True)
    return None if response.status_code == 404 else str(response.json()["weight_version"])


def version_of(mark: str) -> str:
    """Return the version that a mark stands for: a policy's full name, `BASE_VERSION` or `LOADING`."""
    return mark.partition("#")[0]


async def serving_version(control: VLLMControl) -> str | None:
    """Return the version of the weights that the server holds; None where it takes no new weights.

    Raises:
        ModelError: it does not answer.
    """
    mark = await serving_mark(control)
    return None if mark is None else version_of(mark)


async def push_weights(
    control: VLLMControl,
    version: str | None,
    *,
    path_of: Callable[[str], Path],
    lock: Path,
    patience: float = 600.0,
    on_notice: Callable[[str], None] | None = None,
) -> None:
    """Have the server answer with the weights of `version`.

    Args:
        control: the server, which must see policies under the same absolute paths as this process.
        version: a policy's full name; None for the model that the server was started with.
        path_of: the directory of a policy; raises ConfigError for one that is not there.
        lock: file by which pushes take turns.
        patience: seconds that each of the steps may take: another's push, the calls under way, the reload.
        on_notice: called with a sentence where the weights could not be compared.

    Raises:
        ConfigError: nothing was pushed: the server takes no weights, holds adapters, or these do not fit it.
        ModelError: the push failed. The message says what the server holds now.
    """
    root = next(iter((await control.base_models()).values()))
    new = _Weights(BASE_VERSION, root) if version is None else _checked(version, path_of(version), root, on_notice)
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        async with AsyncFileLock(lock, timeout=patience):
            mark = await _replaceable(control)
            await _replace(control, mark, new, _old(mark, root, path_of), patience)
    except Timeout as error:
        raise ModelError(f"Another process is pushing weights (it holds {lock}): try again later.") from error


@dataclass(frozen=True)
class _Weights:
    """What a server can be given, or holds."""

    version: str
    place: str
    """Directory, or name on the hub."""
    files: Checkpoint | None = None
    """As they were checked."""

    def check_unchanged(self) -> None:
        if self.files is not None and Checkpoint.read(self.files.directory) != self.files:
            raise ConfigError(f"The files in {self.place} changed during the push.")


def _checked(version: str, directory: Path, root: str, on_notice: Callable[[str], None] | None) -> _Weights:
    directory = directory.resolve()
    files, base = Checkpoint.read(directory), local_checkpoint(root)
    if base is not None:
        files.check_fits(base)
    elif on_notice is not None:
        on_notice(
            f"The weights in {directory} are complete, but whether they fit could not be checked: there is no copy of "
            f"{root} in safetensors format on this machine."
        )
    return _Weights(version, str(directory), files)


async def _replaceable(control: VLLMControl) -> str:
    """Return the mark of the weights that the server holds.

    Raises:
        ConfigError: they cannot be replaced, or not now.
    """
    mark = await serving_mark(control)
    if mark is None:
        raise ConfigError(
            f"The server at {control.base_url} takes no weights: start it with serve.full_weights = true."
        )
    if adapters := await control.adapters():
        raise ConfigError(
            f"The server at {control.base_url} holds {', '.join(adapters)}, which belong to its present weights: "
            "unload them first."
        )
    return mark


def _old(mark: str, root: str, path_of: Callable[[str], Path]) -> _Weights:
    """Return what to bring back if need be."""
    version = version_of(mark)
    if version != BASE_VERSION:
        with suppress(ConfigError):  # the mark of a push that was killed, or another program's
            directory = path_of(version).resolve()
            if directory.is_dir():
                return _Weights(version, str(directory))
    return _Weights(BASE_VERSION, root)


async def _replace(control: VLLMControl, mark: str, new: _Weights, old: _Weights, patience: float) -> None:
    turn = secrets.token_hex(4)
    async with _paused(control, patience):
        try:
            await _set_mark(control, f"{LOADING}#{turn}")
            await _reload(control, new.place, patience, after_failure=version_of(mark) == LOADING)
            new.check_unchanged()
            await _set_mark(control, f"{new.version}#{turn}")
        except BaseException as error:
            await _bring_back(control, old, f"{old.version}#{turn}", patience, because=error)
            if isinstance(error, (ModelError, ConfigError)):
                raise ModelError(
                    f"The weights of {new.version} were not loaded, and {old.version} answers: {error}"
                ) from error
            raise


@asynccontextmanager
async def _paused(control: VLLMControl, patience: float) -> AsyncIterator[None]:
    """Wait for the calls under way and hold back later ones."""
    try:
        await control.request("POST", "/pause", params={"mode": "wait"}, timeout=patience)
        yield
    finally:
        async for attempt in _attempts():
            with attempt:
                await control.request("POST", "/resume")


async def _reload(control: VLLMControl, place: str, patience: float, *, after_failure: bool) -> None:
    """Load the weights at `place`, and forget what was computed with others."""
    if after_failure:
        await _call_workers(control, {"weights_iterator": []}, patience)
    await _call_workers(control, {"weights_path": place}, patience)
    async for attempt in _attempts():
        with attempt:
            response = await control.request("POST", "/reset_prefix_cache", params={"reset_running_requests": "true"})
            if response.json().get("success") is not True:
                raise ModelError(f"The server at {control.base_url} does not reset its prefix cache.")


def _attempts() -> AsyncRetrying:
    """What must not fail for a passing reason, as it would leave the server held or stale."""
    return AsyncRetrying(
        retry=retry_if_exception_type(ModelError), stop=stop_after_delay(5), wait=wait_fixed(0.5), reraise=True
    )


async def _call_workers(control: VLLMControl, arguments: dict[str, Any], patience: float) -> None:
    body = {"method": "reload_weights", "kwargs": arguments}
    await control.request("POST", "/collective_rpc", body, timeout=patience)


async def _set_mark(control: VLLMControl, mark: str) -> None:
    await control.request("POST", "/update_weight_version", {"new_version": mark})


async def _bring_back(
    control: VLLMControl, old: _Weights, mark: str, patience: float, *, because: BaseException
) -> None:
    try:
        async for attempt in _attempts():  # vLLM closes the connection on which a reload failed
            with attempt:
                await _reload(control, old.place, patience, after_failure=True)
                await _set_mark(control, mark)
    except ModelError as error:
        raise ModelError(
            f"The server at {control.base_url} has lost its weights, which could not be brought back after a failed "
            f"push ({because}): restart it."
        ) from error
