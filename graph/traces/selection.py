"""Which trajectories are meant: the filters that lists, exports and reports share."""

from dataclasses import dataclass, replace

from graph.records import StopReason
from graph.trace import Source, Trajectory


@dataclass(frozen=True)
class Selection:
    """Filters that must all hold; None and empty ones always do."""

    since: float | None = None
    """Unix time, inclusive. A trajectory whose time nobody knows lies in no range."""
    until: float | None = None
    """Unix time, exclusive."""
    conversation: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()
    """All of them."""
    dataset: str | None = None
    source: Source | None = None
    policy: str | None = None
    """A version of the planner that made at least one of its plans."""
    stop: StopReason | None = None
    scored: bool | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    tool: str | None = None
    """A tool that was called."""
    text: str | None = None
    """Part of the question, in any case."""

    @property
    def cuts_groups(self) -> bool:
        """Whether a filter may hold for some rollouts of a question and not for others."""
        shared = replace(self, conversation=None, group=None, dataset=None, source=None, text=None)
        return shared != Selection()

    def matches(self, found: Trajectory) -> bool:
        """Whether every filter holds for a trajectory."""
        return (
            _within(found.created, self.since, self.until)
            and _same(self.conversation, found.conversation)
            and _same(self.group, found.group)
            and set(self.tags) <= set(found.tags)
            and _same(self.dataset, found.dataset)
            and _same(self.source, found.source)
            and (self.policy is None or self.policy in found.policies)
            and _same(self.stop, found.stop)
            and self._has_reward(found.reward)
            and (self.tool is None or self.tool in found.used_tools)
            and (self.text is None or self.text.casefold() in found.question.casefold())
        )

    def _has_reward(self, reward: float | None) -> bool:
        if self.scored is not None and self.scored != (reward is not None):
            return False
        if self.min_reward is not None and (reward is None or reward < self.min_reward):
            return False
        return self.max_reward is None or (reward is not None and reward <= self.max_reward)


def _same(wanted: str | None, found: str | None) -> bool:
    return wanted is None or wanted == found


def _within(value: float | None, since: float | None, until: float | None) -> bool:
    if since is None and until is None:
        return True
    if value is None:
        return False
    return (since is None or value >= since) and (until is None or value < until)
