"""The mean of rewards that come one by one, with its 95 % interval, in constant memory."""

import math
from collections import Counter
from typing import Any, Literal

from graph.interval import Z, wilson


class Rewards:
    """Mean and interval of rewards.

    Wilson's interval where every reward is 0 or 1; otherwise the normal one, 1.96 standard errors on either side of the
    mean (standard deviation with n - 1, by Welford's method), which takes two rewards. Both take trajectories as
    independent of each other: several of one question are not, and the true interval is then wider.
    """

    def __init__(self) -> None:
        self.count = 0
        self.sources: Counter[str] = Counter()
        self._mean = 0.0
        self._squares = 0.0
        self._ones = 0
        self._others = 0

    def add(self, reward: float, source: str) -> None:
        """Take a reward and who gave it."""
        self.count += 1
        self.sources[source] += 1
        self._ones += reward == 1
        self._others += reward not in {0, 1}
        off = reward - self._mean
        self._mean += off / self.count
        self._squares += off * (reward - self._mean)

    @property
    def mean(self) -> float | None:
        """The mean; None without rewards."""
        if not self.count:
            return None
        return self._mean if self._others else self._ones / self.count

    @property
    def method(self) -> Literal["wilson", "normal"] | None:
        """How the interval is made; None where there is none."""
        if self.count and not self._others:
            return "wilson"
        return "normal" if self.count > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean; None where there are too few rewards."""
        if self.method is None:
            return None
        if self.method == "wilson":
            return wilson(self._ones, self.count)
        half = Z * math.sqrt(max(0.0, self._squares) / (self.count - 1) / self.count)
        return self._mean - half, self._mean + half

    def as_json(self) -> dict[str, Any]:
        """Return everything."""
        low, high = self.interval or (None, None)
        return {
            "scored": self.count,
            "mean": self.mean,
            "low": low,
            "high": high,
            "interval": self.method,
            "sources": dict(sorted(self.sources.items())),
        }
