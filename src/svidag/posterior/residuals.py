"""Residuals: what the mechanisms of a fit do not explain, and whether it is Gaussian."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2, kurtosis, skew

from svidag.posterior.posterior import Posterior

ROWS = 2000
"""Rows of a table that are used at most."""
FEWEST = 20
"""Rows that are needed to judge the shape of noise."""


def residuals(posterior: Posterior) -> Float[np.ndarray, "N m"]:
    """Values less their expectation, given the consensus graph and one draw of its parameters.

    NaN where a value was set from outside.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> residuals(svidag.exact.posterior(example.data)).shape
    (100, 4)
    """
    problem, distribution = posterior.problem, posterior.mechanisms
    if problem is None or distribution is None:
        raise ValueError("residuals need the table and the mechanisms of a fit")
    data = problem.data
    values = data.values if problem.scaling is None else problem.scaling.invert(data.values)
    rows, m = slice(None, None, -(-len(values) // ROWS)), data.m
    graph = posterior.consensus().graph.to_numpy().astype(np.uint8)
    alone = np.eye(m, dtype=bool)  # copy j of the graph answers for variable j alone
    given = np.repeat(values[None, rows], m, axis=0)
    equations = distribution.draw(np.repeat(graph[None], m, axis=0), 0, alone)
    expected = equations.propagate(given, np.zeros(given.shape), alone)
    left = np.diagonal(given - expected, axis1=0, axis2=2)
    return np.where(data.intervened[rows], np.nan, left)


def gaussian_p_value(posterior: Posterior) -> float:
    """The probability of residuals less Gaussian than these if all noise were Gaussian.

    The statistics of Jarque and Bera, N/6 skewness² + N/24 (excess kurtosis)², summed over the
    variables, against χ² with two degrees of freedom for each.
    """
    total, count = 0.0, 0
    for column in residuals(posterior).T:
        left = column[np.isfinite(column)]
        if len(left) >= FEWEST and left.std() > 0:
            total += len(left) * (skew(left) ** 2 / 6 + kurtosis(left) ** 2 / 24)
            count += 1
    return float(chi2.sf(total, 2 * count)) if count else 1.0
