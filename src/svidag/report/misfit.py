"""Whether the mechanisms fit the data: residuals given the probable causes.

Nonlinear mechanisms leave residuals from the equations of a typical draw. For linear ones each
variable is regressed on its probable causes, and both ways where the direction is open: under
a linear Gaussian model the residuals are Gaussian and unrelated to squares of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2, kurtosis, skew

from svidag.posterior import Posterior
from svidag.posterior.residuals import residuals

SKEWNESS, KURTOSIS = 1.0, 3.0
"""Skewness and excess kurtosis of residuals that are far from Gaussian; Laplace has 3."""
ERRORS = 4.0
"""Standard errors that skewness and kurtosis must exceed as well."""
CURVED_SHARE = 0.05
"""Share of the residual variance that squares of the causes explain if the relation is curved."""
FALSE_ALARM = 1e-4
"""Probability that a straight relation is taken for a curved one."""
PROBABLE = 0.25
"""Probability from which a cause is taken into account."""
ROWS = 5000
"""Rows of each regression at most."""
FEWEST = 20
"""Rows that are needed to judge the shape of noise."""


@dataclass(frozen=True)
class Misfit:
    """Variables whose noise is far from Gaussian, and those that are curved in their causes."""

    non_gaussian: tuple[str, ...]
    curved: tuple[str, ...]


def misfit(posterior: Posterior) -> Misfit:
    """Check residuals of linear and nonlinear mechanisms; nothing is found without data.

    Examples
    --------
    >>> import numpy as np, pandas as pd, svidag
    >>> x = np.random.default_rng(0).standard_normal((500, 2))
    >>> x[:, 1] += x[:, 0] + x[:, 0] ** 2
    >>> "b" in misfit(svidag.exact.posterior(pd.DataFrame(x, columns=["a", "b"]))).curved
    True
    """
    problem, mechanism = posterior.problem, posterior.mechanism
    if problem is not None and mechanism == "nonlinear" and posterior.mechanisms is not None:
        return Misfit(_non_gaussian_noise(posterior), ())
    if problem is None or mechanism != "linear":
        return Misfit((), ())
    causes = posterior.edge_probabilities().to_numpy() > PROBABLE
    non_gaussian, curved = [], []
    for j, name in enumerate(posterior.names):
        rows = np.flatnonzero(~problem.data.intervened[:, j])
        rows = rows[:: -(-len(rows) // ROWS) or 1]
        values, parents = problem.data.values[rows], np.flatnonzero(causes[:, j])
        if len(rows) < FEWEST + 3 * len(parents):
            continue
        x, y = values[:, parents], values[:, j]
        left = _residual(x, y)
        if _far_from_gaussian(left):
            non_gaussian.append(name)
        if len(parents) and _is_curved(x, left):
            curved.append(name)
    return Misfit(tuple(non_gaussian), tuple(curved))


def _non_gaussian_noise(posterior: Posterior) -> tuple[str, ...]:
    """Variables whose residuals, from one draw of their equations, are far from Gaussian."""
    columns = (column[np.isfinite(column)] for column in residuals(posterior).T)
    return tuple(
        name
        for name, column in zip(posterior.names, columns, strict=True)
        if len(column) > FEWEST and _far_from_gaussian(column)
    )


def _residual(x: Float[np.ndarray, "N k"], y: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    design = np.column_stack([np.ones(len(y)), x])
    return y - design @ np.linalg.lstsq(design, y, rcond=None)[0]


def _far_from_gaussian(left: Float[np.ndarray, " N"]) -> bool:
    n = len(left)
    return bool(
        abs(skew(left)) > max(SKEWNESS, ERRORS * math.sqrt(6 / n))
        or kurtosis(left) > max(KURTOSIS, ERRORS * math.sqrt(24 / n))
    )


def _is_curved(x: Float[np.ndarray, "N k"], left: Float[np.ndarray, " N"]) -> bool:
    """Whether squares of the causes, less their linear part, explain the residuals."""
    squares = np.column_stack([_residual(x, column**2) for column in (x - x.mean(axis=0)).T])
    unexplained = _residual(squares, left)
    share = 1 - unexplained.var() / left.var()
    return bool(share > CURVED_SHARE and len(left) * share > chi2.isf(FALSE_ALARM, x.shape[1]))
