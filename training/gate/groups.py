"""What can be learned from a group: its members' rewards are compared with each other."""

from collections.abc import Mapping, Sequence, Set
from typing import Literal

from training.gate.facts import Facts
from training.gate.kind import Kind
from training.gate.meaning import PROBLEMS

State = Literal["trainable", "of_one", "zero_variance", "mixed", "inexact", "unscored"]


def judge_group(group: Sequence[Facts], kinds: Mapping[str, Set[Kind]]) -> tuple[State, set[Kind]]:
    """Return a group's state, and what was found in it as a whole.

    A group is used as it was rolled out, or not at all: without the members that cannot be used exactly its baseline
    would be another, and biased, as what goes wrong goes with hard questions and long answers. Members without a reward
    are no part of the baseline, and forks were never rolled out.

    Args:
        group: all of its trajectories.
        kinds: by id, what was found in each alone.
    """
    members = [facts for facts in group if facts.is_member]
    if not members:
        return "unscored", set()
    found = _mixtures(members)
    if any(facts.reward is None and Kind.FORK not in facts.kinds for facts in group):
        found.add(Kind.LOST_MEMBERS)
    if len(members) == 1:
        return "of_one", found | {Kind.GROUP_OF_ONE}
    usable = sum(kinds[facts.id].isdisjoint(PROBLEMS) for facts in members)
    if len({facts.question for facts in members}) > 1:
        return "mixed", found | {Kind.DIFFERENT_QUESTIONS}
    if len({facts.reward for facts in members}) == 1:
        return "zero_variance", found | {Kind.ZERO_VARIANCE}
    if not usable:
        return "inexact", found
    if usable < len(members):
        return "mixed", found | {Kind.MIXED_GROUP}
    if not any(facts.tokens for facts in members):
        return "inexact", found | {Kind.NO_TOKENS}
    return "trainable", found


def _mixtures(members: Sequence[Facts]) -> set[Kind]:
    """Return in what the members of a group differ that should be the same."""
    mixtures: dict[Kind, Set[object]] = {
        Kind.MIXED_POLICIES: {policy for facts in members for policy, _ in facts.policies},
        Kind.MIXED_SETTINGS: {facts.settings for facts in members},
        Kind.MIXED_REWARDS: {facts.reward_source for facts in members},
    }
    return {kind for kind, values in mixtures.items() if len(values) > 1}
