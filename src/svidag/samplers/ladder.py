"""How flat the flattest replica of a chain must be, and how many replicas there should be."""

from __future__ import annotations

import math

import numpy as np

FREE_ROWS = 30.0
"""A replica at the power τ sees N τ rows; with so many, orders move freely."""


def ladder(
    rows: int, m: int, flattest: float | None = None, levels: int | None = None
) -> tuple[float, int]:
    """The power of the target at the first replica and the number of replicas, unless given.

    Examples
    --------
    >>> ladder(1000, 25)
    (0.03, 7)
    >>> ladder(1000, 25, levels=3)
    (0.03, 3)
    >>> ladder(10, 25)
    (1.0, 1)
    """
    if flattest is None:
        flattest = 1.0 if rows <= FREE_ROWS else float(np.clip(FREE_ROWS / rows, 0.003, 0.2))
    if levels is None:
        # Neighbours exchange about every third time, since log p(D | order) spreads with √m.
        levels = 1 + math.ceil(-math.log(flattest) * math.sqrt(m) / 3)
    return float(flattest), levels
