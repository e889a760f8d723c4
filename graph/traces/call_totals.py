"""What model calls took, added up: tokens, seconds and dollars, each as far as it is known."""

from dataclasses import dataclass, field
from typing import Any

from graph.trace import TracedCall
from graph.traces.spread import Spread


@dataclass
class Tally:
    """A sum of what is known, and of how many."""

    sum: float = 0
    known: int = 0

    def add(self, value: float | None) -> None:
        """Take a number; None is unknown and never 0."""
        if value is not None:
            self.sum += value
            self.known += 1

    @property
    def value(self) -> float | None:
        """The sum; None where nothing is known."""
        return self.sum if self.known else None

    def as_json(self) -> dict[str, float | None]:
        """Return the sum, and how many calls it is of."""
        return {"sum": self.value, "of": self.known}


@dataclass
class CallTotals:
    """The totals of some calls."""

    calls: int = 0
    prompt: Tally = field(default_factory=Tally)
    cached: Tally = field(default_factory=Tally)
    completion: Tally = field(default_factory=Tally)
    seconds: Spread = field(default_factory=Spread)
    first_token: Spread = field(default_factory=Spread)
    cost: Tally = field(default_factory=Tally)
    """In US dollars."""

    def add(self, call: TracedCall, cost: float | None) -> None:
        """Take a call and what it cost."""
        self.calls += 1
        self.prompt.add(call.usage.prompt)
        self.cached.add(call.usage.cached)
        self.completion.add(call.usage.completion)
        self.seconds.add(call.seconds)
        self.first_token.add(call.first_token_seconds)
        self.cost.add(cost)

    def as_json(self) -> dict[str, Any]:
        """Return everything; `of` says how many calls a number is of."""
        return {
            "calls": self.calls,
            "prompt_tokens": self.prompt.as_json(),
            "cached_tokens": self.cached.as_json(),
            "completion_tokens": self.completion.as_json(),
            "seconds": self.seconds.as_json(),
            "first_token_seconds": self.first_token.as_json(),
            "dollars": self.cost.as_json(),
        }
