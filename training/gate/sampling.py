"""What in a recorded call's sampling makes its log-probabilities unusable.

`training.turn_row` refuses the same; here every reason is named, and nothing is taken for granted: a trace may come
from another program.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from graph.models.sampling_check import bending_fields
from training.gate.kind import Kind


def sampling_problems(sampling: Mapping[str, Any] | None) -> Iterator[Kind]:
    """Yield what is wrong with how a call was sampled."""
    asked = sampling or {}
    temperature, extra = number(asked.get("temperature")), asked.get("extra")
    if temperature is None or temperature < 0 or not (extra is None or isinstance(extra, Mapping)):
        yield Kind.NO_SAMPLING
        return
    if temperature == 0:
        yield Kind.GREEDY
    if asked.get("constrained"):
        yield Kind.CONSTRAINED
    if asked.get("seed") is not None:
        yield Kind.FIXED_SEED
    if bending_fields(asked):
        yield Kind.BENT


def number(value: Any) -> float | None:
    """Return a finite number as a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
