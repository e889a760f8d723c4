"""Records that were skipped, as they are told: the first few, then how many more."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentflow.console.terminal import complain

if TYPE_CHECKING:
    from graph.traces.reading import Damage

_SHOWN = 5


class DamageReport:
    """Takes each damage as it is found."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, damage: "Damage") -> None:
        """Tell of one, unless enough were told of."""
        self.count += 1
        if self.count <= _SHOWN:
            complain(f"Skipped {damage.where}: {damage.why}")

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tell how many more there were."""
        if self.count > _SHOWN:
            complain(f"Skipped {self.count - _SHOWN} more.")
