"""Bringing an asset into its place: the official hub first, then the mirror, verified all along."""

import errno
import hashlib
import os
import shutil
from pathlib import Path

from filelock import FileLock

from graph.assets.asset import Asset
from graph.assets.mirror import fetch_from_mirror, scratch_prefix
from graph.assets.partial import PartialFile, Progress, SourceError, WrongBytesError
from graph.assets.place import directory_of
from graph.errors import SetupError

_SPARE_BYTES = 64 << 20
_CHUNK = 1 << 20


def ensure(asset: Asset, progress: Progress = lambda _name, _done, _size: None) -> Path:
    """Fetch `asset` unless it lies in its place intact, and return its path.

    Takes up what an interrupted call left. Calls from several processes wait for each other. Raises SetupError with one
    sentence when no source supplies the right bytes, the disk is full or the cache directory cannot be written; the
    place then holds nothing.
    """
    directory = directory_of(asset)
    place = directory / asset.filename
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with FileLock(directory / f"{asset.filename}.lock"):
            if not _intact(asset, place, progress):
                _fetch(asset, place, progress)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            (directory / f"{asset.filename}.part").unlink(missing_ok=True)
            raise SetupError(_disk_full(asset, directory)) from error
        reason = error.strerror or error
        raise SetupError(
            f"The {asset.title} cannot be kept in {directory} ({reason}): set AGENTFLOW_CACHE_DIR to a folder that can "
            "be written."
        ) from error
    return place


def _intact(asset: Asset, place: Path, progress: Progress) -> bool:
    """Whether the whole asset lies at `place`; what else lies there is removed."""
    if not place.exists():
        return False
    digest, done = hashlib.sha256(), 0
    with place.open("rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
            done += len(data)
            progress(asset.name, min(done, asset.size), asset.size)
    if digest.hexdigest() == asset.sha256:
        return True
    place.unlink()
    return False


def _fetch(asset: Asset, place: Path, progress: Progress) -> None:
    path = place.with_name(f"{place.name}.part")
    for leftover in place.parent.glob(f"{scratch_prefix(path)}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with PartialFile(asset, path, progress) as partial:
        # The mirror keeps one part twice while pip moves it, beside the file that grows.
        needed = asset.size - partial.done + 2 * max(part.size for part in asset.parts) + _SPARE_BYTES
        if shutil.disk_usage(place.parent).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        try:
            _fill(asset, partial)
            partial.move_to(place)
        except WrongBytesError as error:
            path.unlink(missing_ok=True)
            raise SetupError(
                f"The {asset.title} was refused and deleted ({error}): the source is damaged or tampered with; run "
                "`agentflow setup` again, or from another network."
            ) from error
        except SourceError as error:
            kept = f", which goes on from {100 * partial.done // asset.size} %" if partial.done else ""
            raise SetupError(
                f"The {asset.title} could not be fetched ({error}): check the network and run `agentflow setup` "
                f"again{kept}."
            ) from error


def _fill(asset: Asset, partial: PartialFile) -> None:
    """Complete `partial` from the first source that can. Raises the last source's error, naming the earlier one's."""
    refused: SourceError | None = None
    if asset.hub is not None and not partial.complete:
        # Imported here: httpx takes a tenth of a second that commands with nothing to fetch do not owe.
        from graph.assets.hub import fetch_from_hub

        try:
            return fetch_from_hub(asset.hub, partial)
        except SourceError as error:
            refused = error
    try:
        fetch_from_mirror(partial, partial.path.parent)
    except SourceError as error:
        if refused is None:
            raise
        raise type(error)(f"{refused}; {error}") from error


def _disk_full(asset: Asset, directory: Path) -> str:
    needed = asset.size + 2 * max(part.size for part in asset.parts) + _SPARE_BYTES
    return (
        f"The disk that holds {directory} is full: the {asset.title} needs {needed / 1e9:.1f} GB; free some space, or "
        "set AGENTFLOW_CACHE_DIR to a folder on another disk, and run `agentflow setup` again."
    )
