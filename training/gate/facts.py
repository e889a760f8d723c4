"""The little that the gate keeps of each trajectory."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from graph.records import StopReason
from graph.trace import TracedCall, Trajectory
from training.gate.calls import call_problems, plan_problems
from training.gate.kind import Kind
from training.gate.sampling import number
from training.gate.settings import GateSettings
from training.gate.tokenizer import TokenizerCheck
from training.turn_row import PLANNER

_NO_DEMONSTRATION: Final = frozenset(
    {Kind.UNPLANNED_TURN, Kind.NO_TURNS, Kind.NO_MESSAGES, Kind.PROMPT_CHANGED, Kind.REDACTED, Kind.BENCHMARK}
)
_STOPS: Final = {StopReason.FAILED: Kind.FAILED, StopReason.CANCELLED: Kind.CANCELLED}


@dataclass(frozen=True, slots=True)
class Facts:
    """What of a trajectory decides its use."""

    id: str
    group: str | None
    question: bytes
    """Digest of question and history."""
    reward: float | None
    reward_source: str | None
    kinds: frozenset[Kind]
    """What was found in it alone."""
    temperatures: frozenset[float]
    """Of its planner calls."""
    policies: tuple[tuple[str | None, int], ...]
    """Policies of its planner calls, each with their number."""
    settings: bytes
    """Digest of configuration and prompts."""
    plans: bytes
    """Digest of what the planner sampled."""
    turns: int
    """Number of its planner calls."""
    tokens: int
    """Sampled by the planner."""
    can_be_asked: bool
    """Whether it can be rolled out again and scored."""
    demonstrates: bool
    """Whether its plans succeeded and may be imitated."""

    @property
    def is_member(self) -> bool:
        """Whether its reward counts in its group's baseline: a fork is no rollout of the question."""
        return self.group is not None and self.reward is not None and Kind.FORK not in self.kinds


def facts_of(
    trajectory: Trajectory, *, settings: GateSettings, on_benchmark: bool, tokenizer: TokenizerCheck | None
) -> Facts:
    """Return what the gate keeps of a trajectory; `on_benchmark` says that its question is a benchmark's."""
    calls = trajectory.calls_of(PLANNER)
    kinds = {kind for call in calls for kind in call_problems(call, tokenizer)}
    kinds.update(plan_problems(trajectory, calls), _run_problems(trajectory))
    if on_benchmark:
        kinds.add(Kind.BENCHMARK)
    return Facts(
        id=trajectory.id,
        group=trajectory.group,
        question=_digest(trajectory.question, [exchange.model_dump() for exchange in trajectory.history]),
        reward=trajectory.reward,
        reward_source=trajectory.reward_source,
        kinds=frozenset(kinds),
        temperatures=frozenset(found for call in calls if (found := _temperature(call)) is not None),
        policies=tuple(Counter(call.policy for call in calls).items()),
        settings=_digest(trajectory.config_hash, trajectory.prompts),
        plans=_digest([call.completion_ids or call.text for call in calls]),
        turns=len(calls),
        tokens=sum(len(call.completion_ids or ()) for call in calls),
        can_be_asked=not on_benchmark and _can_be_asked(trajectory, settings),
        demonstrates=kinds.isdisjoint(_NO_DEMONSTRATION) and _succeeded(trajectory, calls, settings),
    )


def _run_problems(trajectory: Trajectory) -> set[Kind]:
    kinds = {_STOPS[trajectory.stop]} if trajectory.stop in _STOPS else set()
    if not kinds and trajectory.reward is None:
        kinds.add(Kind.UNSCORED)
    if trajectory.group is None:
        kinds.add(Kind.NO_GROUP)
    if trajectory.parent is not None or trajectory.parent_turns is not None:
        kinds.add(Kind.FORK)
    if trajectory.redacted and any(call.completion_ids is None for call in trajectory.calls_of(PLANNER)):
        kinds.add(Kind.REDACTED)  # a call that was not touched keeps its ids
    return kinds


def _can_be_asked(trajectory: Trajectory, settings: GateSettings) -> bool:
    def whole(text: str) -> bool:
        return not any(f"[{name}]" in text for name in trajectory.redacted)

    known = any(answer.strip() and whole(answer) for answer in trajectory.reference or ())
    asked = [trajectory.question, *(exchange.question for exchange in trajectory.history)]
    return bool(trajectory.question.strip()) and all(map(whole, asked)) and (known or settings.judge)


def _succeeded(trajectory: Trajectory, calls: Sequence[TracedCall], settings: GateSettings) -> bool:
    """Whether a finished run earned the reward of a success with plans that could all be used."""
    return (
        trajectory.reward is not None
        and trajectory.reward >= settings.success
        and all(turn.plan is not None for turn in trajectory.turns)
        and all(call.text.strip() for call in calls)
    )


def _temperature(call: TracedCall) -> float | None:
    return number((call.sampling or {}).get("temperature"))


def _digest(*parts: object) -> bytes:
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
