"""Prompt token ids across a run: stored as what differs from the same role's previous call."""

from collections.abc import Sequence

from graph.records import ModelCall


def prompt_ids_of(calls: Sequence[ModelCall], role: str) -> list[list[int] | None]:
    """Return the full prompt ids of each call of `role`, in order; None where the server gave none."""
    full: list[list[int] | None] = []
    previous: list[int] = []
    for call in calls:
        if call.role != role:
            continue
        if call.prompt_rest is None:
            full.append(None)
            continue
        previous = [*previous[: call.prompt_shared], *call.prompt_rest]
        full.append(previous)
    return full


def shared_length(ids: Sequence[int], previous: Sequence[int]) -> int:
    """Return how many leading ids two prompts share."""
    return next(
        (i for i, (a, b) in enumerate(zip(ids, previous, strict=False)) if a != b), min(len(ids), len(previous))
    )
