"""Trajectories from traces: a batch's rollouts are read instead of rolled out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graph.errors import RolloutError
from graph.trace import Trajectory
from training.turn_row import rows_of


class TraceReplay:
    """Hands the recorded trajectories of a group to the copies of its prompt in a batch.

    A prompt of the training set is a group id. Recorded log-probabilities are pi_old. A failed trajectory (reward None)
    and one that was never recorded leave the baseline. Raises `TraceError` for a scored trajectory that cannot be
    trained on exactly, `RolloutError` where nothing could be learned from any group.
    """

    def __init__(self, trajectories: Iterable[Trajectory]) -> None:
        self.groups: dict[str, list[Trajectory]] = {}
        """Trajectories by group id, in the order given."""
        self.ungrouped = 0
        """Trajectories of no group: they have no baseline and are left out."""
        temperatures: set[float] = set()
        for trajectory in trajectories:
            if trajectory.group is None:
                self.ungrouped += 1
                continue
            if trajectory.reward is not None:
                temperatures.update(row.temperature for row in rows_of(trajectory))
            self.groups.setdefault(trajectory.group, []).append(trajectory)
        if not any(_has_contrast(group) for group in self.groups.values()):
            raise RolloutError(
                "No group holds two scored trajectories with different rewards, so there is nothing to learn from: "
                "roll the questions out again, or score them."
            )
        if len(temperatures) != 1:
            found = ", ".join(str(value) for value in sorted(temperatures)) or "none"
            raise RolloutError(
                f"The planner must have been sampled at one temperature, found {found}: split the traces."
            )
        self.temperature = temperatures.pop()
        """The temperature at which the planner was sampled."""

    @property
    def group_size(self) -> int:
        """G: the size of the largest group. `num_generations` must equal it, so that no trajectory is left over."""
        return max(len(group) for group in self.groups.values())

    def prompts(self) -> list[dict[str, str]]:
        """Return the rows of the training set, one per group."""
        return [{"prompt": group} for group in self.groups]

    def __call__(self, inputs: Sequence[Mapping[str, Any]]) -> list[Trajectory | None]:
        """Return a trajectory for each row of a batch: the k-th copy of a prompt gets the group's k-th, or None."""
        seen: Counter[str] = Counter()
        found: list[Trajectory | None] = []
        for row in inputs:
            group = self.groups[row["prompt"]]
            position = seen[row["prompt"]] % self.group_size
            seen[row["prompt"]] += 1
            found.append(group[position] if position < len(group) else None)
        return found


def _has_contrast(group: Sequence[Trajectory]) -> bool:
    return len({trajectory.reward for trajectory in group if trajectory.reward is not None}) > 1
