"""A matplotlib backend without a window: showing a figure saves it in the current directory and closes it."""

import os
from typing import Any
from weakref import WeakSet

from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_saved: WeakSet[Figure] = WeakSet()


class FigureCanvas(FigureCanvasAgg):
    """Agg, remembering which figures the code saved itself, so that none is kept twice."""

    def print_png(self, filename_or_obj: Any, *, metadata: Any = None, pil_kwargs: Any = None, **_: Any) -> None:
        """Save as PNG. Matplotlib hands a backend that is not its own what the figure has applied already, too."""
        super().print_png(filename_or_obj, metadata=metadata, pil_kwargs=pil_kwargs)  # type: ignore[no-untyped-call]
        if isinstance(filename_or_obj, str | os.PathLike):
            folder = os.path.dirname(os.path.abspath(filename_or_obj))
            if folder == os.environ.get("HOME"):
                _saved.add(self.figure)


FigureManager = FigureManagerBase
_shown = 0


def show(*_: Any, **__: Any) -> None:
    """Save every open figure that was not saved yet as figure_N.png, and close all."""
    global _shown
    import matplotlib.pyplot as plt  # late: pyplot imports its backend

    for number in plt.get_fignums():
        figure = plt.figure(number)
        if figure not in _saved:
            _shown += 1
            figure.savefig(f"figure_{_shown}.png")
    plt.close("all")
