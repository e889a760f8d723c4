"""Figures of a run: PNG files in the private directory, those of `plt.show()` and of open figures among them."""

import atexit
import contextlib
import os
import sys

from .report import FIGURE, report
from .setup import Setup

BACKEND = "agentflow_figures"
"""The matplotlib backend in the directory `backend`."""
FIGURES = 4
"""Figures that are kept of one run."""
FIGURE_BYTES = 1 << 20
"""Size of one of them: they are stored with the run."""
SIGNATURE = b"\x89PNG\r\n\x1a\n"
"""How every PNG file begins."""


def collect_at_exit(setup: Setup) -> None:
    """Report the image files when the interpreter ends, after the code's own exit handlers."""
    atexit.register(_collect, setup)


def save_open_figures(setup: Setup) -> None:
    """Save what the code drew and did not show; before the interpreter's end, where matplotlib closes all figures."""
    backend = sys.modules.get(BACKEND)
    if backend is not None:
        os.chdir(setup.home)
        backend.show()


def _collect(setup: Setup) -> None:
    with contextlib.suppress(OSError):  # the code may have used up every descriptor, or changed its files
        for path in _images(setup.home):
            _keep(path, setup.results)


def _images(home: str) -> list[str]:
    """Return the first image files, oldest first."""
    with os.scandir(home) as entries:
        images = [entry for entry in entries if entry.name.endswith(".png") and entry.is_file(follow_symlinks=False)]
        found = [(entry.stat().st_mtime_ns, entry.path) for entry in images]
    return [path for _, path in sorted(found)[:FIGURES]]


def _keep(path: str, results: int) -> None:
    with open(path, "rb") as file:
        content = file.read(FIGURE_BYTES + 1)
    if len(content) > FIGURE_BYTES:
        sys.stderr.write(f"{os.path.basename(path)} is over {FIGURE_BYTES >> 20} MB and was not kept\n")
    elif content.startswith(SIGNATURE):
        report(results, FIGURE, content)
