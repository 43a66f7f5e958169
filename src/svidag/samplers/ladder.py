"""Default tempering of a chain: the power of its flattest replica and the number of replicas."""

from __future__ import annotations

import math

FREE_ROWS = 30.0
"""A replica at the power τ is as flat as a posterior from N τ rows; with so few, orders move
freely."""


FEW = 25
"""Fewer variables than this have as many replicas as this many; there they take little time."""


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
        flattest = 1.0 if rows <= FREE_ROWS else max(FREE_ROWS / rows, 0.003)
    if levels is None:
        # The spread of log p(D | order) grows with √m; with this many levels, about a third of the
        # exchanges between neighbours are accepted.
        levels = 1 + round(-math.log(flattest) * math.sqrt(max(m, FEW)) / 3)
    return float(flattest), levels
