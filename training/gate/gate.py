"""The gate: reads traces once, and says what each can be used for.

1. Of each trajectory a few facts are kept, among them what is wrong with it alone.
2. When all are read, the version to train and its temperature are known: calls of others are not exact.
3. A group whose scored members are all exact, ask one question and differ in reward can be trained on as it is.
4. What is not exact can be rolled out again where its answer can be scored, and imitated where it succeeded.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from evals.overlap import BenchmarkQuestions
from graph.models.sampling_check import bending_fields
from graph.trace import Trajectory
from graph.traces.reading import Damage
from graph.traces.steps import standalone_question
from training.gate.facts import Facts, facts_of
from training.gate.judging import Judgement, Use, judge
from training.gate.kind import Kind
from training.gate.meaning import PROBLEMS
from training.gate.report import EXAMPLES, Findings, GateReport, GroupCounts, TokenizerCounts
from training.gate.settings import GateSettings
from training.gate.sorting import Sorting
from training.gate.tokenizer import TokenizerCheck
from training.turn_row import PLANNER

T = TypeVar("T", bound=Hashable)

_UNKNOWN = "unknown"
_QUESTION_CHARS = 100
_DAMAGES = {
    "torn": Kind.TORN,
    "version": Kind.OTHER_VERSION,
    "unequal_lengths": Kind.UNEQUAL_LENGTHS,
    "graded_failure": Kind.GRADED_FAILURE,
    "unsourced_reward": Kind.UNSOURCED_REWARD,
    "call_without_turn": Kind.CALL_WITHOUT_TURN,
}
"""By the kind of a damage; every other one is unreadable."""


class Gate:
    """Takes trajectories one by one. Keeps some hundred bytes of each."""

    def __init__(
        self, settings: GateSettings, *, benchmarks: BenchmarkQuestions, tokenizer: TokenizerCheck | None = None
    ) -> None:
        """`tokenizer` is None where there is no model to check token ids against."""
        self._settings = settings
        self._benchmarks = benchmarks
        self._tokenizer = tokenizer
        self._facts: dict[str, Facts] = {}
        self._findings = Findings()
        self._overlaps: dict[str, Counter[str]] = defaultdict(Counter)
        self._shown: dict[Kind, dict[str, str]] = defaultdict(dict)
        """By kind, then id: the first few examples, where the id alone does not say what was found."""
        self._shared: dict[Hashable, Hashable] = {}

    def damaged(self, damage: Damage) -> None:
        """Take note of a record that could not be read."""
        self._findings.add(_DAMAGES.get(damage.kind, Kind.UNREADABLE), f"{damage.where}: {damage.why}")

    def add(self, trajectory: Trajectory) -> None:
        """Take in a trajectory; one whose id was there before is left out."""
        if trajectory.id in self._facts:
            self._findings.add(Kind.REPEATED_ID, trajectory.id)
            return
        asked = dict.fromkeys([trajectory.question, standalone_question(trajectory)])
        overlap = next(filter(None, map(self._benchmarks.find, asked)), None)
        if overlap:
            self._overlaps[overlap.benchmark][overlap.how] += 1
            self._show(
                Kind.BENCHMARK,
                trajectory,
                f"{overlap.how} in {overlap.benchmark}: {overlap.question[:_QUESTION_CHARS]}",
            )
        facts = facts_of(
            trajectory, settings=self._settings, on_benchmark=overlap is not None, tokenizer=self._tokenizer
        )
        if Kind.BENT in facts.kinds:
            names = {name for call in trajectory.calls_of(PLANNER) for name in bending_fields(call.sampling or {})}
            self._show(Kind.BENT, trajectory, ", ".join(sorted(names)))
        self._facts[facts.id] = replace(
            facts,
            group=self._share(facts.group),
            question=self._share(facts.question),
            kinds=self._share(facts.kinds),
            temperatures=self._share(facts.temperatures),
            policies=self._share(facts.policies),
            settings=self._share(facts.settings),
        )

    def _show(self, kind: Kind, trajectory: Trajectory, what: str) -> None:
        if len(self._shown[kind]) < EXAMPLES:
            self._shown[kind][trajectory.id] = f"{trajectory.id} ({what})"

    def _share(self, value: T) -> T:
        """Return the equal value that was there before: many trajectories have the same."""
        return self._shared.setdefault(value, value)  # type: ignore[return-value]

    def judge(self) -> Sorting:
        """Return what everything that was taken in can be used for. Nothing can be taken in any more."""
        judgement = judge(self._facts, self._settings)
        for name, kinds in judgement.group_kinds.items():
            for kind in kinds:
                self._findings.add(kind, name)
        for name, kinds in judgement.kinds.items():
            problems = kinds & PROBLEMS
            for kind in kinds:
                self._findings.add(kind, self._shown[kind].get(name, name), alone=problems == {kind})
        return Sorting(self._report(judgement), self._facts, judgement.uses)

    def _report(self, judgement: Judgement) -> GateReport:
        everything = self._facts.values()
        uses = Counter(judgement.uses.values())
        exact = [facts for facts in everything if Use.EXACT in judgement.uses[facts.id]]
        asked = {facts.question for facts in everything if Use.QUESTION in judgement.uses[facts.id]}
        return GateReport(
            trajectories=len(everything),
            exact=len(exact),
            questions_only=_count(uses, Use.QUESTION),
            demonstrations_only=uses[frozenset({Use.DEMONSTRATION})],
            unusable=uses[frozenset()],
            demonstrations=_count(uses, Use.DEMONSTRATION),
            exact_demonstrations=uses[frozenset({Use.EXACT, Use.DEMONSTRATION})],
            questions=len(asked),
            groups=GroupCounts.model_validate(Counter(judgement.states.values())),
            turns=sum(facts.turns for facts in exact),
            tokens=sum(facts.tokens for facts in exact),
            policies={name or _UNKNOWN: count for name, count in judgement.planned.most_common()},
            policy=judgement.policy.name if judgement.policy else None,
            versions_behind=dict(sorted(judgement.versions_behind.items())),
            temperatures=dict(Counter(value for facts in everything for value in facts.temperatures).most_common()),
            temperature=judgement.temperature,
            benchmarks=self._benchmarks.sizes,
            overlaps={name: dict(counts) for name, counts in self._overlaps.items()},
            tokenizer=self._tokenizer_counts(),
            problems=self._findings.problems(),
            not_checked=tuple(self._not_checked(judgement)),
        )

    def _tokenizer_counts(self) -> TokenizerCounts | None:
        check = self._tokenizer
        if check is None:
            return None
        return TokenizerCounts(
            model=check.model,
            prompts=check.prompts,
            same_prompts=check.same_prompts,
            texts=check.texts,
            same_texts=check.same_texts,
        )

    def _not_checked(self, judgement: Judgement) -> Sequence[str]:
        sentences = []
        if self._tokenizer is None:
            sentences.append("Tokenizer and chat template: give --model the model that sampled the traces.")
        if judgement.policy is None:
            sentences.append("Staleness: no trace names the policy that planned it.")
        if len(self._benchmarks.sizes) == 1:
            sentences.append("Overlap with other benchmarks than the starter set: give each with --benchmark.")
        return sentences


def _count(uses: Mapping[frozenset[Use], int], use: Use) -> int:
    return sum(count for found, count in uses.items() if use in found)
