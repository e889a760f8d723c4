"""Accuracy with its error, and the paired test that says whether two systems differ on the same questions.

The interval is Wilson's, which stays inside [0, 1] and holds at the small counts of a held-out set. The test is
McNemar's in its exact form: under the null hypothesis a question that only one system gets right is as likely to be
the one's as the other's, so the smaller count is binomial with p = 1/2. Both are a line of exact integer arithmetic,
which is why no statistics package is installed for them. Ungraded answers are in neither.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.score import Score
from graph.errors import ConfigError
from graph.interval import wilson


@dataclass(frozen=True)
class Accuracy:
    """The share of graded answers that are right."""

    right: int
    graded: int
    """Answers with a verdict, right or wrong: the denominator."""
    ungraded: int
    low: float
    """Lower end of Wilson's 95 % interval; 0 when nothing is graded."""
    high: float
    """Upper end of it; 1 when nothing is graded."""

    @property
    def value(self) -> float | None:
        """Right over graded; None when nothing is graded."""
        return self.right / self.graded if self.graded else None


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same questions."""

    candidate: Accuracy
    baseline: Accuracy
    both_right: int
    only_candidate: int
    """Questions that the candidate gets right and the baseline wrong."""
    only_baseline: int
    both_wrong: int
    left_out: int
    """Questions that either system's scorer left ungraded; they are in no count above and not in the test."""
    p_value: float
    """Two-sided, exact; 1 when the systems never disagree."""


def accuracy(scores: Sequence[Score]) -> Accuracy:
    """Count right, wrong and ungraded; full credit is right, anything less is wrong."""
    verdicts = [score.right for score in scores if score.right is not None]
    right, graded = sum(verdicts), len(verdicts)
    low, high = wilson(right, graded)
    return Accuracy(right=right, graded=graded, ungraded=len(scores) - graded, low=low, high=high)


def compare(*, candidate: Mapping[str, Score], baseline: Mapping[str, Score]) -> Comparison:
    """Compare the scores of two systems, keyed by sample id.

    Raises ConfigError when the two did not answer the same questions: a paired test would be wrong.
    """
    if candidate.keys() != baseline.keys():
        odd = sorted(candidate.keys() ^ baseline.keys())
        raise ConfigError(
            f"a paired comparison needs the same questions on both sides, but {len(odd)} are on one side only, "
            f"such as {odd[0]!r}: evaluate both on the same set"
        )
    cells = [(score.right, baseline[key].right) for key, score in candidate.items()]
    pairs = [(first, second) for first, second in cells if first is not None and second is not None]
    only_candidate, only_baseline = pairs.count((True, False)), pairs.count((False, True))
    return Comparison(
        candidate=accuracy(list(candidate.values())),
        baseline=accuracy(list(baseline.values())),
        both_right=pairs.count((True, True)),
        only_candidate=only_candidate,
        only_baseline=only_baseline,
        both_wrong=pairs.count((False, False)),
        left_out=len(cells) - len(pairs),
        p_value=mcnemar(only_candidate, only_baseline),
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided exact p-value of so many questions that only one of two systems gets right."""
    if min(only_first, only_second) < 0:
        raise ValueError(f"counts are not negative, but got {only_first} and {only_second}")
    discordant = only_first + only_second
    tail, term = 0, 1
    for k in range(min(only_first, only_second) + 1):
        tail += term
        term = term * (discordant - k) // (k + 1)  # C(n, k + 1) from C(n, k): counting each anew is slow for thousands
    return min(1.0, 2 * tail / (1 << discordant))
