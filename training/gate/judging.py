"""Decides on each trajectory's use, once the facts of all are known."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from training.gate.facts import Facts
from training.gate.groups import State, judge_group
from training.gate.kind import Kind
from training.gate.meaning import PROBLEMS
from training.gate.policy_age import TrainedPolicy
from training.gate.settings import GateSettings


class Use(StrEnum):
    """What a trajectory can be used for."""

    EXACT = "exact"
    """As recorded."""
    QUESTION = "question"
    """Its question is rolled out again. Not said of exact ones."""
    DEMONSTRATION = "demonstration"
    """Its plans are imitated."""


@dataclass
class Judgement:
    """What is known of all trajectories together."""

    planned: Counter[str | None]
    """Calls by the policy that planned."""
    policy: TrainedPolicy | None
    temperature: float | None = None
    kinds: dict[str, set[Kind]] = field(default_factory=dict)
    """By id: what was found in a trajectory."""
    group_kinds: dict[str, set[Kind]] = field(default_factory=dict)
    """By group: what was found in it as a whole."""
    states: dict[str, State] = field(default_factory=dict)
    """By group."""
    uses: dict[str, frozenset[Use]] = field(default_factory=dict)
    """By id; empty for what is unusable."""

    @property
    def versions_behind(self) -> Counter[int]:
        """Calls by how many versions behind the trained one their policy is, where that can be said."""
        behind: Counter[int] = Counter()
        for name, count in self.planned.items():
            age = self.policy.behind(name) if self.policy and name else None
            if age is not None:
                behind[age] += count
        return behind


def judge(everything: Mapping[str, Facts], settings: GateSettings) -> Judgement:
    """Decide, given the facts of all trajectories by their id."""
    planned: Counter[str | None] = Counter()
    for facts in everything.values():
        planned.update(dict(facts.policies))
    named = Counter({name: count for name, count in planned.items() if name is not None})
    judgement = Judgement(planned, TrainedPolicy.among(named, settings.policy))
    for facts in everything.values():
        judgement.kinds[facts.id] = {*facts.kinds, *_age_problems(facts, judgement.policy, settings.max_staleness)}
    judgement.temperature = settings.temperature or _most_usual(everything.values(), judgement.kinds)
    groups: dict[str, list[Facts]] = defaultdict(list)
    for facts in everything.values():
        if _differs(facts, judgement.temperature):
            judgement.kinds[facts.id].add(Kind.OTHER_TEMPERATURE)
        if facts.group is not None:
            groups[facts.group].append(facts)
    for name, group in groups.items():
        _note_same_plans(group, judgement.kinds)
        judgement.states[name], judgement.group_kinds[name] = judge_group(group, judgement.kinds)
    shared: dict[frozenset[Use], frozenset[Use]] = {}
    for facts in everything.values():
        uses = _uses(facts, judgement)
        judgement.uses[facts.id] = shared.setdefault(uses, uses)
    return judgement


def _age_problems(facts: Facts, policy: TrainedPolicy | None, most: int) -> set[Kind]:
    if policy is None:
        return set()
    ages = [policy.behind(name) if name is not None else None for name, _ in facts.policies]
    found = set()
    for (name, _), age in zip(facts.policies, ages, strict=True):
        if name is None and Kind.NO_IDS in facts.kinds:
            continue  # a server that returns no ids knows no policies
        if name is None:
            found.add(Kind.UNKNOWN_POLICY)
        elif age is None:
            found.add(Kind.OTHER_POLICY)
        elif age > most:
            found.add(Kind.STALE)
    return found


def _most_usual(everything: Iterable[Facts], kinds: Mapping[str, set[Kind]]) -> float | None:
    """Return the temperature of most trajectories that are in order otherwise; the lower one of two that are."""
    counts: Counter[float] = Counter()
    for facts in everything:
        if len(facts.temperatures) == 1 and kinds[facts.id].isdisjoint(PROBLEMS):
            counts.update(facts.temperatures)
    return min(counts, key=lambda temperature: (-counts[temperature], temperature), default=None)


def _differs(facts: Facts, temperature: float | None) -> bool:
    """Whether its planner was sampled at another temperature, or at several; at 0 it was not sampled."""
    sampled = {value for value in facts.temperatures if value > 0}
    return len(sampled) > 1 or (temperature is not None and bool(sampled - {temperature}))


def _note_same_plans(group: Iterable[Facts], kinds: Mapping[str, set[Kind]]) -> None:
    seen: set[bytes] = set()
    for facts in group:
        if facts.turns and facts.plans in seen:
            kinds[facts.id].add(Kind.SAME_PLANS)
        seen.add(facts.plans)


def _uses(facts: Facts, judgement: Judgement) -> frozenset[Use]:
    uses = set()
    if facts.group is not None and facts.is_member and judgement.states[facts.group] == "trainable":
        uses.add(Use.EXACT)
    elif facts.can_be_asked:
        uses.add(Use.QUESTION)
    if facts.demonstrates:
        uses.add(Use.DEMONSTRATION)
    return frozenset(uses)
