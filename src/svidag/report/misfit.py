"""Whether the mechanisms fit the data: residuals given the probable causes.

Nonlinear mechanisms leave residuals from the equations of the consensus graph. For linear ones each
variable is regressed on its probable causes, and both ways where the direction is open: under
a linear Gaussian model what is left over is Gaussian and bends with none of them either way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2, kurtosis, skew

from svidag.mechanisms.equations import ParameterDistribution
from svidag.posterior import Posterior
from svidag.problem import Problem

SKEWNESS, KURTOSIS = 1.0, 3.0
"""Skewness and excess kurtosis of residuals that are far from Gaussian; Laplace has 3."""
ERRORS = 4.0
"""Standard errors that skewness and kurtosis must exceed as well."""
BEND = 0.05
"""Share of the residual variance explained by squares of the causes, if the relation bends."""
CHANCE = 1e-4
"""Probability that a straight relation seems to bend."""
PROBABLE = 0.25
"""Probability from which a cause is taken into account."""
ROWS, FOLLOWED = 5000, 1000
"""Rows looked at, by regression and by following equations."""
FEWEST = 20
"""Fewer rows say nothing about the shape of noise."""


@dataclass(frozen=True)
class Misfit:
    """Variables whose noise is far from Gaussian, and those whose relation to causes bends."""

    rough: tuple[str, ...]
    bent: tuple[str, ...]


def misfit(posterior: Posterior) -> Misfit:
    """Look at residuals; other mechanisms, and posteriors without data, pass.

    Examples
    --------
    >>> import numpy as np, pandas as pd, svidag
    >>> x = np.random.default_rng(0).standard_normal((500, 2))
    >>> x[:, 1] += x[:, 0] + x[:, 0] ** 2
    >>> "b" in misfit(svidag.exact.posterior(pd.DataFrame(x, columns=["a", "b"]))).bent
    True
    """
    problem, mechanism = posterior.problem, posterior.mechanism
    if problem is not None and mechanism == "nonlinear" and posterior.mechanisms is not None:
        return Misfit(_rough_noise(posterior, posterior.mechanisms, problem), ())
    if problem is None or mechanism != "linear":
        return Misfit((), ())
    causes = posterior.edge_probabilities().to_numpy() > PROBABLE
    rough, bent = [], []
    for j, name in enumerate(posterior.names):
        rows = np.flatnonzero(~problem.data.intervened[:, j])
        rows = rows[:: -(-len(rows) // ROWS) or 1]
        values, parents = problem.data.values[rows], np.flatnonzero(causes[:, j])
        if len(rows) < FEWEST + 3 * len(parents):
            continue
        x, y = values[:, parents], values[:, j]
        left = _residual(x, y)
        if _far_from_gaussian(left):
            rough.append(name)
        if len(parents) and _bends(x, left):
            bent.append(name)
    return Misfit(tuple(rough), tuple(bent))


def _rough_noise(
    posterior: Posterior, distribution: ParameterDistribution, problem: Problem
) -> tuple[str, ...]:
    """Variables whose residual from one draw of their equation is far from Gaussian."""
    values = problem.data.values
    if problem.scaling is not None:
        values = problem.scaling.invert(values)
    graph = posterior.consensus().graph.to_numpy().astype(np.uint8)
    rows, m = slice(None, None, -(-len(values) // FOLLOWED)), len(graph)
    alone = np.eye(m, dtype=bool)  # copy j of the graph answers for variable j alone
    given = np.repeat(values[None, rows], m, axis=0)
    equations = distribution.draw(np.repeat(graph[None], m, axis=0), 0, alone)
    expected = equations.propagate(given, np.zeros(given.shape), alone)
    left = np.diagonal(given - expected, axis1=0, axis2=2)
    free = ~problem.data.intervened[rows]
    return tuple(
        name
        for j, name in enumerate(posterior.names)
        if free[:, j].sum() > FEWEST and _far_from_gaussian(left[free[:, j], j])
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


def _bends(x: Float[np.ndarray, "N k"], left: Float[np.ndarray, " N"]) -> bool:
    """Whether squares of the causes, made straight by the causes, explain what is left."""
    squares = np.column_stack([_residual(x, column**2) for column in (x - x.mean(axis=0)).T])
    still = _residual(squares, left)
    share = 1 - still.var() / left.var()
    return bool(share > BEND and len(left) * share > chi2.isf(CHANCE, x.shape[1]))
