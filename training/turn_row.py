"""One planner call as training data."""

from dataclasses import dataclass

from graph.errors import TraceError
from graph.models.sampling_check import bending_fields
from graph.trace import TracedCall, Trajectory

PLANNER = "planner"


@dataclass(frozen=True)
class TurnRow:
    """What the policy saw and sampled in one turn. Ids are the server's own: text is never tokenised again."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """The sampled tokens, end-of-sequence token included where it was sampled. May be empty."""
    logprobs: tuple[float, ...]
    """log pi_old of `completion_ids`, of the distribution scaled by `temperature`; same length."""
    temperature: float
    trajectory: str
    """Id of the trajectory that the call belongs to."""
    group: str | None
    """Id of the trajectory's group; None for a trajectory that is compared with no other."""


def rows_of(trajectory: Trajectory) -> tuple[TurnRow, ...]:
    """Return the planner calls of a trajectory in order, one row per turn.

    A trajectory without planner calls (answered with `max_turns = 0`) has none. Raises `TraceError` for a call that
    cannot be trained on exactly: a trajectory with a turn left out would be weighted by the wrong number of turns.
    """
    calls = [call for call in trajectory.calls if call.role == PLANNER]
    return tuple(_row(trajectory, position, call) for position, call in enumerate(calls))


def _row(trajectory: Trajectory, position: int, call: TracedCall) -> TurnRow:
    name = f"Planner call {position} of trajectory {trajectory.id}"
    if call.prompt_ids is None or call.completion_ids is None or call.logprobs is None:
        raise TraceError(f"{name} has no token ids or log-probabilities: record it from a server that returns them.")
    if call.sampling is None:
        raise TraceError(f"{name} does not say how it was sampled: record it with AgentFlow.")
    if call.sampling.get("constrained"):
        raise TraceError(f'{name} was sampled under a schema: record it with models.planner.structured = "off".')
    temperature = call.sampling.get("temperature")
    if not isinstance(temperature, int | float) or temperature <= 0:
        raise TraceError(f"{name} was not sampled: record it with models.planner.temperature above 0.")
    if bent := bending_fields(call.sampling):
        raise TraceError(f"{name} was sampled with {' and '.join(bent)}: record it without.")
    return TurnRow(
        prompt_ids=call.prompt_ids,
        completion_ids=call.completion_ids,
        logprobs=call.logprobs,
        temperature=float(temperature),
        trajectory=trajectory.id,
        group=trajectory.group,
    )
