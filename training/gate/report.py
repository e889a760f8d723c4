"""What the gate says of traces, for people and for programs."""

from collections import Counter, defaultdict

from pydantic import computed_field

from graph.records import Record
from training.gate.kind import Kind
from training.gate.meaning import MEANINGS, Level, Unit

EXAMPLES = 3
_LEVELS: tuple[Level, ...] = ("problem", "warning", "note")


class Problem(Record):
    """One kind of what was found."""

    kind: Kind
    level: Level
    count: int
    unit: Unit
    """What is counted."""
    alone: int | None
    """How many of the trajectories have no other problem; None for records, groups, warnings and notes."""
    examples: tuple[str, ...]
    """Ids of a few; of records where they stand, and what is wrong there."""
    what: str
    todo: str


class GroupCounts(Record):
    """Groups by what can be learned from them; each is counted once."""

    trainable: int = 0
    """At least two scored members, all exact, with different rewards."""
    of_one: int = 0
    zero_variance: int = 0
    mixed: int = 0
    """Some scored members can be used exactly and others not, or their questions differ."""
    inexact: int = 0
    """No scored member can be used exactly, or none sampled a token."""
    unscored: int = 0

    @property
    def all(self) -> int:
        """How many groups there are."""
        return self.trainable + self.of_one + self.zero_variance + self.mixed + self.inexact + self.unscored


class TokenizerCounts(Record):
    """Planner calls that agree with a model's tokenizer."""

    model: str
    prompts: int
    """Calls with ids and messages."""
    same_prompts: int
    texts: int
    """Calls with completion ids."""
    same_texts: int


class GateReport(Record):
    """What traces can be used for, and what is wrong with the rest."""

    trajectories: int
    """With different ids; each is in one of the next four."""
    exact: int
    """Used as recorded."""
    questions_only: int
    """Rolled out again."""
    demonstrations_only: int
    """Imitated."""
    unusable: int
    demonstrations: int
    """All that can be imitated: exact ones and those whose questions can be asked again count here, too."""
    exact_demonstrations: int
    questions: int
    """Different ones among `questions_only`."""
    groups: GroupCounts
    turns: int
    """Planner calls of exact trajectories: rows to train on."""
    tokens: int
    """Sampled tokens in them."""
    policies: dict[str, int]
    """Planner calls by policy; "unknown" where none is named."""
    policy: str | None
    """The version that staleness was counted from; None where no trace names one."""
    versions_behind: dict[int, int]
    """Planner calls by how many versions older than that their policy is."""
    temperatures: dict[float, int]
    """Trajectories by the planner's temperature."""
    temperature: float | None
    """The one that is trained at; None where nothing could be trained on."""
    benchmarks: dict[str, int]
    """Different questions compared with, by benchmark."""
    overlaps: dict[str, dict[str, int]]
    """Trajectories by benchmark, and by how their question was found there: same, contained, near."""
    tokenizer: TokenizerCounts | None
    problems: tuple[Problem, ...]
    """What keeps trajectories out of exact first, then warnings and notes; the most frequent first."""
    not_checked: tuple[str, ...]
    """A sentence each."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def trainable(self) -> bool:
        """Whether anything can be trained on."""
        return bool(self.exact or self.questions_only or self.demonstrations)


class Findings:
    """Counts what is found, with a few examples."""

    def __init__(self) -> None:
        self._counts: Counter[Kind] = Counter()
        self._alone: Counter[Kind] = Counter()
        self._examples: dict[Kind, list[str]] = defaultdict(list)

    def add(self, kind: Kind, name: str, *, alone: bool = False) -> None:
        """Count one; `name` is its id, `alone` says that it has no other problem."""
        self._counts[kind] += 1
        self._alone[kind] += alone
        if len(self._examples[kind]) < EXAMPLES:
            self._examples[kind].append(name)

    def problems(self) -> tuple[Problem, ...]:
        """Return what was found, the worst first."""
        ordered = sorted(self._counts, key=lambda kind: (_LEVELS.index(MEANINGS[kind].level), -self._counts[kind]))
        return tuple(
            Problem(
                kind=kind,
                level=MEANINGS[kind].level,
                count=self._counts[kind],
                unit=MEANINGS[kind].unit,
                alone=self._alone[kind] if _is_problem_of_trajectories(kind) else None,
                examples=tuple(self._examples[kind]),
                what=MEANINGS[kind].what,
                todo=MEANINGS[kind].todo,
            )
            for kind in ordered
        )


def _is_problem_of_trajectories(kind: Kind) -> bool:
    return MEANINGS[kind].level == "problem" and MEANINGS[kind].unit == "trajectory"
