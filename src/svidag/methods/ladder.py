"""How flat the flattest replica of a chain must be, and how many there should be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FREE_ROWS = 30.0
"""A replica at the power τ sees N τ rows; with so many, orders move freely."""


def ladder(rows: int, m: int, given: dict[str, Any]) -> dict[str, Any]:
    """`flattest` and `levels`, unless they are given.

    Examples
    --------
    >>> ladder(1000, 25, {})
    {'flattest': 0.03, 'levels': 7}
    >>> ladder(1000, 25, {"levels": 3})["levels"]
    3
    >>> ladder(10, 25, {})
    {'flattest': 1.0, 'levels': 1}
    """
    usual = 1.0 if rows <= FREE_ROWS else float(np.clip(FREE_ROWS / rows, 0.003, 0.2))
    flattest = given.get("flattest", usual)
    # Neighbours exchange about every third time, since log p(D | order) spreads with √m.
    levels = 1 + math.ceil(-math.log(flattest) * math.sqrt(m) / 3) if 0 < flattest <= 1 else 1
    return {"flattest": flattest, "levels": given.get("levels", levels)}
