"""95 % intervals around what was counted or measured, from the standard library alone."""

import math
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)
"""Standard errors on either side of a mean."""


def wilson(right: int, graded: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a proportion; (0, 1) when there is nothing to go by."""
    if not 0 <= right <= graded:
        raise ValueError(f"{right} right of {graded}")
    if graded == 0:
        return 0.0, 1.0
    share, weight = right / graded, Z**2 / graded
    centre = (share + weight / 2) / (1 + weight)
    half = math.sqrt(share * (1 - share) * weight + weight**2 / 4) / (1 + weight)
    return max(0.0, centre - half) if right else 0.0, min(1.0, centre + half) if right < graded else 1.0
