"""Residuals: what the mechanisms of a fit do not explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from svidag.mechanisms.nodewise import NodewiseEquations
from svidag.run.streams import Stream, generator

if TYPE_CHECKING:
    from svidag.posterior.posterior import Posterior

ROWS = 2000
"""Rows of a table that are used at most, unless others are asked for."""


def residuals(
    posterior: Posterior, rows: Int[np.ndarray, " R"] | None = None
) -> Float[np.ndarray, "R m"]:
    """The noise of every row and variable, up to shift and scale, by the consensus graph.

    Mechanisms are at the centre of their distribution. With x(ε) what an equation gives for
    standard normal noise ε, a residual is (x − x(0))/(x(1) − x(0)); NaN where a value was set from
    outside. That of a discrete variable is chosen at random among the noise that gives its level.

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
    if rows is None:
        rows = np.arange(0, data.n_rows, -(-data.n_rows // ROWS))
    values = data.values if problem.scaling is None else problem.scaling.invert(data.values)
    given = values[rows][None]
    graph = posterior.consensus().graph.to_numpy().astype(np.uint8)
    equations = distribution.centre(graph[None])
    left = np.empty(given.shape[1:])
    if isinstance(equations, NodewiseEquations):
        uniform = generator(0, Stream.RESIDUALS).random(left.shape)
        for j in range(data.m):
            left[:, j] = equations.equations[0, j].noise(given[0], uniform[:, j])
        return np.where(data.intervened[rows], np.nan, left)
    for j, alone in enumerate(np.eye(data.m, dtype=bool)):
        usual, high = (
            equations.propagate(given, np.full(given.shape, noise), alone[None])[0, :, j]
            for noise in (0.0, 1.0)
        )
        left[:, j] = (given[0, :, j] - usual) / np.maximum(high - usual, np.finfo(float).tiny)
    return np.where(data.intervened[rows], np.nan, left)
