"""What is wrong with a trajectory's planner calls, each by itself."""

from collections import Counter
from collections.abc import Iterator, Sequence

from graph.prompt import hash_messages
from graph.trace import TracedCall, Trajectory
from training.gate.kind import Kind
from training.gate.sampling import sampling_problems
from training.gate.tokenizer import TokenizerCheck

_MOST_LOGPROB = 1e-3
"""A probability is at most 1; servers round."""


def plan_problems(trajectory: Trajectory, calls: Sequence[TracedCall]) -> Iterator[Kind]:
    """Yield what is wrong with how turns and planner calls go together."""
    if not trajectory.turns and not calls:
        yield Kind.NO_TURNS
    if Counter(call.turn for call in calls) != Counter(range(len(trajectory.turns))):
        yield Kind.UNPLANNED_TURN
    if len({call.policy for call in calls}) > 1:
        yield Kind.SEVERAL_POLICIES


def call_problems(call: TracedCall, tokenizer: TokenizerCheck | None) -> Iterator[Kind]:
    """Yield what is wrong with one planner call."""
    if not call.prompt_ids or call.completion_ids is None or call.logprobs is None:
        yield Kind.NO_IDS
    elif not call.completion_ids:
        yield Kind.EMPTY_COMPLETION
    if max(call.logprobs or (0.0,)) > _MOST_LOGPROB:
        yield Kind.IMPOSSIBLE_LOGPROBS
    if not call.messages or call.prompt_hash is None:
        yield Kind.NO_MESSAGES
    elif hash_messages(call.messages) != call.prompt_hash:
        yield Kind.PROMPT_CHANGED
    if call.finish_reason == "length":
        yield Kind.TRUNCATED
    yield from sampling_problems(call.sampling)
    if tokenizer is not None:
        yield from tokenizer.problems(call)
