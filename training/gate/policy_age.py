"""How old the policy behind a call is, seen from the version that is about to be trained."""

from collections import Counter
from dataclasses import dataclass
from typing import Self

from graph.errors import ConfigError
from graph.policies.policy import split_name, versioned_name
from graph.policies.settings import BASE


@dataclass(frozen=True)
class TrainedPolicy:
    """The version about to be trained. The model as it is counts as version 0 of every line."""

    line: str | None
    """None for the model as it is."""
    version: int
    base: str | None
    """The name of the model as it is; None where no trace names it."""

    @classmethod
    def among(cls, planned: Counter[str], wanted: str | None) -> Self | None:
        """Return what `wanted` names, or else the newest version of the line that planned most.

        Args:
            planned: how many calls each policy planned.
            wanted: a version, `base`, a model's name, or None.

        Returns:
            None where nothing is wanted and no call names its policy.
        """
        versions = {name: found for name in planned if (found := version_of(name))}
        bases = Counter({name: count for name, count in planned.items() if name not in versions})
        base = next((name for name, _ in bases.most_common(1)), None)
        if wanted is not None:
            found = version_of(wanted)
            return cls(*found, base) if found else cls(None, 0, base if wanted == BASE else wanted)
        lines: Counter[str] = Counter()
        for name, (line, _) in versions.items():
            lines[line] += planned[name]
        if lines:
            line = lines.most_common(1)[0][0]
            return cls(line, max(version for found, version in versions.values() if found == line), base)
        return cls(None, 0, base) if base else None

    @property
    def name(self) -> str:
        """As people write it."""
        return self.base or BASE if self.line is None else versioned_name(self.line, self.version)

    def behind(self, policy: str) -> int | None:
        """Return how many versions a policy is behind; None for one that did not lead to this one."""
        found = version_of(policy)
        if found is None:
            return self.version if policy == self.base else None
        line, version = found
        return self.version - version if line == self.line and version <= self.version else None


def version_of(name: str) -> tuple[str, int] | None:
    """Return line and number of a version; None for a name of a model as it is."""
    try:
        return split_name(name)
    except ConfigError:
        return None
