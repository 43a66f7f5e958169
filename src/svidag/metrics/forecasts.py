"""Scores of probabilities against 0/1 outcomes: accuracy, ranking and calibration."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.stats import rankdata


def brier(probabilities: ArrayLike, outcomes: ArrayLike) -> float:
    """Mean squared difference between the probabilities and the 0/1 outcomes.

    Examples
    --------
    >>> brier([0.5, 1.0], [1, 1])
    0.125
    """
    p, y = _forecasts(probabilities, outcomes)
    return float(np.mean((p - y) ** 2))


def auroc(probabilities: ArrayLike, outcomes: ArrayLike) -> float:
    """Probability that a random 1 has a higher score than a random 0, ties counting half.

    Undefined, and nan, if the outcomes are all alike.

    Examples
    --------
    >>> auroc([0.9, 0.5, 0.5, 0.1], [1, 1, 0, 0])
    0.875
    """
    p, y = _forecasts(probabilities, outcomes)
    ones = int(y.sum())
    zeros = len(y) - ones
    if ones == 0 or zeros == 0:
        return float("nan")
    return float((rankdata(p)[y].sum() - ones * (ones + 1) / 2) / (ones * zeros))


@dataclass(frozen=True)
class Reliability:
    """Forecasts by bin: what was predicted, what happened, how often; nan in an empty bin.

    Examples
    --------
    >>> reliability([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0], bins=2).frequency
    array([0. , 0.5])
    """

    edges: Float[np.ndarray, " edges"]
    predicted: Float[np.ndarray, " bins"]
    frequency: Float[np.ndarray, " bins"]
    count: Int[np.ndarray, " bins"]


def reliability(probabilities: ArrayLike, outcomes: ArrayLike, bins: int = 10) -> Reliability:
    """Mean probability and frequency of ones in bins of equal width, the last closed at 1.

    Examples
    --------
    >>> reliability([0.2, 0.4, 1.0], [0, 1, 1], bins=2).count
    array([2, 1])
    """
    p, y = _forecasts(probabilities, outcomes)
    edges, which = _binned(p, bins)
    count = np.bincount(which, minlength=bins)
    some = np.where(count > 0, count, np.nan)
    return Reliability(
        edges=edges,
        predicted=np.bincount(which, weights=p, minlength=bins) / some,
        frequency=np.bincount(which, weights=y, minlength=bins) / some,
        count=count,
    )


def expected_calibration_error(
    probabilities: ArrayLike, outcomes: ArrayLike, bins: int = 10
) -> float:
    """Mean over forecasts of |predicted − frequency| in their bin.

    Examples
    --------
    >>> round(expected_calibration_error([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 1]), 3)
    0.1
    """
    p, y = _forecasts(probabilities, outcomes)
    _, which = _binned(p, bins)
    return float(np.abs(np.bincount(which, weights=p - y)).sum() / len(p))


def calibration_band(
    probabilities: ArrayLike,
    bins: int = 10,
    level: float = 0.95,
    *,
    seed: int = 0,
    simulations: int = 1000,
) -> tuple[float, float]:
    """Range of calibration errors that a perfect forecaster with these forecasts would show.

    The central interval of `expected_calibration_error` when each outcome is an independent
    Bernoulli variable with the stated probability. Edges of one graph depend on one another, so
    pool several graphs before reading an error above the band as miscalibration.

    Examples
    --------
    >>> low, high = calibration_band([0.5] * 100)
    >>> 0 <= low < high < 0.15
    True
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}")
    p = _flat(probabilities)
    rng = np.random.default_rng(seed)
    _, which = _binned(p, bins)
    gaps = [np.bincount(which, weights=p - (rng.random(len(p)) < p)) for _ in range(simulations)]
    errors = np.abs(gaps).sum(axis=1) / len(p)
    low, high = np.quantile(errors, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _binned(
    p: Float[np.ndarray, " n"], bins: int
) -> tuple[Float[np.ndarray, " edges"], Int[np.ndarray, " n"]]:
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    edges = np.linspace(0.0, 1.0, bins + 1)
    return edges, np.minimum(np.searchsorted(edges, p, side="right") - 1, bins - 1)


def _forecasts(
    probabilities: ArrayLike, outcomes: ArrayLike
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    p = _flat(probabilities)
    y = np.asarray(outcomes)
    if y.size != p.size or not ((y == 0) | (y == 1)).all():
        raise ValueError(
            f"outcomes must be {p.size} values 0 or 1, one for each probability, "
            f"got {y.size} values"
        )
    return p, y.ravel().astype(bool)


def _flat(probabilities: ArrayLike) -> Float[np.ndarray, " n"]:
    p = np.asarray(probabilities, dtype=np.float64).ravel()
    if p.size == 0:
        raise ValueError("probabilities must not be empty")
    if not ((p >= 0) & (p <= 1)).all():
        bad = p[~((p >= 0) & (p <= 1))][0]
        raise ValueError(f"probabilities must lie between 0 and 1, got {bad}")
    return p
