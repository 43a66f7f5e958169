"""Regressions of a discrete variable, with Laplace's approximation of the evidence.

*Categories* (and two levels): logits of the K levels are U B x, with x = (1, features), U an
orthonormal K × (K − 1) basis of contrasts between levels, and B_ab ~ N(0, s²/2), so that the logit
of one level against another has slopes with standard deviation s.

*Ordered levels*: P(y ≤ k) = F(c_k − wᵀx), F the logistic function, w ~ N(0, s²); the thresholds
have the density (K − 1)! Π_k f(c_k), f = F′, which makes the probabilities of the levels at x = 0
uniform over the simplex.

Both log posteriors are concave, and Newton's method finds the mode. With H minus the second
derivatives there, and d parameters,

    log p(y | x) ≈ log p(y | mode) + log p(mode) + ½ d log 2π − ½ log|H|.

The slopes of BGe have the standard deviation √2 σ. The noise behind a logit has σ = π/√3, so that
s = √2 π/√3 here: effects of the same size are equally probable beforehand, whatever the kind of the
effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from svidag.kernels import categories, ordered

SLOPE_SD = float(np.sqrt(2.0) * np.pi / np.sqrt(3.0))
"""s, the standard deviation of slopes beforehand."""
STEPS, PRECISION = 60, 1e-6
"""Newton steps at most, and the gain in log density that a last step may still promise."""
HALVINGS = 30


@dataclass(frozen=True, eq=False)
class LaplaceFit:
    """A mode, its curvature and the evidence.

    Attributes
    ----------
    theta
        The parameters at the mode: B row by row, or thresholds and then slopes.
    factor
        The lower Cholesky factor of H.
    log_evidence
        log p(y | x), approximately.
    """

    theta: Float[np.ndarray, " d"]
    factor: Float[np.ndarray, "d d"]
    log_evidence: float

    def draw(self, count: int, rng: np.random.Generator) -> Float[np.ndarray, "count d"]:
        """θ ~ N(mode, H⁻¹)."""
        noise = rng.standard_normal((len(self.theta), count))
        return self.theta + solve_triangular(self.factor, noise, lower=True, trans=1).T


def fit_categories(x: Float[np.ndarray, "n d"], counts: Float[np.ndarray, "n K"]) -> LaplaceFit:
    """Regress categories: how often each level occurs with each row of features.

    Examples
    --------
    >>> found = fit_categories(np.zeros((1, 0)), np.array([[30.0, 70.0]]))
    >>> found.theta.shape
    (1,)
    """
    size, U = counts.shape[1], contrasts(counts.shape[1])
    design = np.column_stack([np.ones(len(x)), x])
    precision = 2.0 / SLOPE_SD**2
    theta = np.zeros((size - 1) * design.shape[1])
    limits = (STEPS, PRECISION, HALVINGS)
    information, value = categories.find_mode(
        theta, design, counts.astype(float), U, precision, *limits
    )
    prior = 0.5 * len(theta) * np.log(precision / (2 * np.pi))
    return _laplace(theta, information, value + prior)


def fit_ordered(
    x: Float[np.ndarray, "n d"], row: Int[np.ndarray, " t"], level: Int[np.ndarray, " t"],
    count: Float[np.ndarray, " t"], size: int,
) -> LaplaceFit:  # fmt: skip
    """Regress ordered levels, given as (row of features, level, how often) of what occurs.

    Examples
    --------
    >>> both = np.array([0, 0, 0]), np.arange(3), np.array([20.0, 50.0, 30.0])
    >>> from scipy.special import expit
    >>> np.round(expit(fit_ordered(np.zeros((1, 0)), *both, 3).theta), 2).tolist()
    [0.2, 0.7]
    """
    start = np.zeros(size - 1 + x.shape[1])
    share = np.bincount(level, count, size) + 0.5
    below = (share.cumsum() / share.sum())[:-1]
    start[: size - 1] = np.log(below / (1 - below))
    precision = 1.0 / SLOPE_SD**2
    parts = (np.ascontiguousarray(x), row, level, count.astype(float))
    limits = (STEPS, PRECISION, HALVINGS)
    information, value = ordered.find_mode(start, *parts, precision, *limits)
    prior = float(gammaln(size)) + 0.5 * x.shape[1] * np.log(precision / (2 * np.pi))
    return _laplace(start, information, value + prior)


def _laplace(
    theta: Float[np.ndarray, " d"], information: Float[np.ndarray, "d d"], value: float
) -> LaplaceFit:
    factor = np.linalg.cholesky(information)
    logdet = float(np.log(np.diag(factor)).sum())
    return LaplaceFit(theta, factor, value + 0.5 * len(theta) * np.log(2 * np.pi) - logdet)


@cache
def contrasts(size: int) -> Float[np.ndarray, "K k"]:
    """U: an orthonormal basis of the contrasts between K levels.

    Examples
    --------
    >>> contrasts(3).shape, bool(abs(contrasts(3).sum()) < 1e-12)
    ((3, 2), True)
    """
    return np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)]))[0][:, 1:size]
