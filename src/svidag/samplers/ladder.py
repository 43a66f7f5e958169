"""Tempering of a chain: the power of its flattest replica, the number of replicas, their powers."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

FREE_ROWS = 30.0
"""A replica at the power τ is as flat as a posterior from N τ rows; with so few, orders move
freely."""

FEW = 25
"""Fewer variables than this have as many replicas as this many; there they take little time."""

MANY = 50
"""With more variables than this, ladders begin less flat and burn-in chooses their length: half of
a ladder's replicas lie between `FREE_ROWS` and three times as many rows. Four graphs of 100 and 200
variables (sparse, dense, scale free) had chains that were as close at a fifth of the time."""

MANY_POWER, MANY_ROWS = 0.1, 100.0
"""With many variables the flattest power is this, or that of so many rows where this is less."""

LEAST_POWER = 0.003

LEAST_REJECTED = 0.02  # share of exchanges that counts as rejected at least
REJECTED = 0.5  # share of exchanges that are rejected in a ladder of the best length


def free_power(rows: int) -> float:
    """The power at which a posterior from so many rows lets orders move freely.

    Examples
    --------
    >>> free_power(1000), free_power(10)
    (0.03, 1.0)
    """
    return 1.0 if rows <= FREE_ROWS else max(FREE_ROWS / rows, LEAST_POWER)


def flattest_power(rows: int, m: int) -> float:
    """The power at the first replica of a chain whose burn-in chooses the length of its ladder.

    Examples
    --------
    >>> flattest_power(1000, 50), flattest_power(1000, 100), flattest_power(100, 100)
    (0.03, 0.1, 0.3)
    """
    free = free_power(rows)
    return free if m <= MANY else max(free, min(MANY_POWER, MANY_ROWS / rows))


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
        flattest = free_power(rows)
    if levels is None:
        # The spread of log p(D | order) grows with √m; with this many levels, about a third of the
        # exchanges between neighbours are accepted.
        levels = 1 + round(-math.log(flattest) * math.sqrt(max(m, FEW)) / 3)
    return float(flattest), levels


def respace_powers(
    powers: Float[np.ndarray, " levels"],
    exchanged: Float[np.ndarray, " pairs"],
    levels: int | None = None,
) -> Float[np.ndarray, " found"]:
    """Powers between the same ends at which all neighbours reject exchanges equally often.

    The share of rejected exchanges adds up along the ladder and is interpolated in log τ. There are
    as many powers as before, unless told otherwise.

    Examples
    --------
    >>> respace_powers(np.array([0.01, 0.1, 1.0]), np.array([1.0, 0.1])).round(2).tolist()
    [0.01, 0.31, 1.0]
    """
    rejected = np.cumsum([0.0, *np.clip(1 - exchanged, LEAST_REJECTED, 1.0)])
    spots = np.linspace(0, rejected[-1], levels or len(powers))
    found = np.exp(np.interp(spots, rejected, np.log(powers)))
    return np.concatenate([powers[:1], found[1:-1], powers[-1:]])


def best_levels(exchanged: Float[np.ndarray, " pairs"]) -> int:
    """The number of levels between the same ends at which an order passes through them cheapest.

    With Λ the sum of the shares of rejected exchanges, which hardly depends on the number of
    levels L, an order passes up and down in about 2 + 2Λ/(1 − Λ/L) turns (Syed et al. 2022), each
    of L sweeps. That is least for L ≈ 2Λ: half of the exchanges are rejected.

    Examples
    --------
    >>> best_levels(np.array([0.5, 0.5, 0.5, 0.5])), best_levels(np.array([0.8, 0.8, 0.8, 0.8]))
    (5, 3)
    """
    rejected = np.clip(1 - exchanged, LEAST_REJECTED, 1.0).sum()
    return 1 + max(1, round(float(rejected) / REJECTED))
