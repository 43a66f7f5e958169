"""Residuals: what the mechanisms of a fit do not explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int, UInt8

from svidag.mechanisms.environment_parameters import EnvironmentEquations, EnvironmentParameters
from svidag.mechanisms.equations import Equations, ParameterDistribution
from svidag.mechanisms.linear_parameters import LinearEquations
from svidag.mechanisms.nodewise import NodewiseEquations
from svidag.run.streams import Stream, generator

if TYPE_CHECKING:
    from svidag.posterior.posterior import Posterior

ROWS = 2000
"""Rows of a table that are used at most, unless others are asked for."""
DRAWS = 100
"""Graphs among which one is chosen."""
MANY_VARIABLES = 50
"""With more variables linear residuals are one product of matrices; else node by node, which gives
the same but for the last bits."""


def residuals(
    posterior: Posterior, rows: Int[np.ndarray, " R"] | None = None
) -> Float[np.ndarray, "R m"]:
    """The noise of every row and variable, up to shift and scale, by the `typical_graph`.

    Mechanisms are at the centre of their distribution. With x(ε) what an equation gives for
    standard normal noise ε, a residual is (x − x(0))/(x(1) − x(0)); NaN where a value was set from
    outside, and where the value or that of a cause is missing. That of a discrete variable is
    chosen at random among the noise that gives its level.

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
    given = problem.values[rows][None]
    graph = typical_graph(posterior)
    changing = _changing(distribution)
    if problem.environments is None or changing is None:
        left = _noise(distribution.centre(graph[None]), given, given[0])
    else:
        labels, left = problem.environments.labels[rows], np.empty(given.shape[1:])
        for e in np.unique(labels):
            equations = changing.centre_in(int(e), graph[None])
            own = given[:, labels == e]
            left[labels == e] = _noise(equations, own, own[0])
    unknown = data.intervened[rows]
    if problem.missing is not None:
        gone = problem.missing.mask[rows]
        unknown = unknown | gone | (gone @ graph.astype(bool))
    return np.where(unknown, np.nan, left)


def typical_graph(posterior: Posterior) -> UInt8[np.ndarray, "m m"]:
    """The one of `DRAWS` draws that differs least from the others.

    The consensus graph need not be a probable one: where three arrows each have several directions,
    it can have none of them, and would leave noise that depends on each other in any table.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> typical_graph(svidag.exact.posterior(example.data)).shape
    (4, 4)
    """
    draws = posterior.sample(DRAWS)
    apart = np.abs(draws - posterior.graphs.edge_probabilities()).sum(axis=(1, 2))
    return draws[int(np.argmin(apart))]


def expected_noise(
    posterior: Posterior, normal: Float[np.ndarray, " L"]
) -> Float[np.ndarray, "L m"]:
    """What residuals are where noise has these standard normal values, by the fitted mechanisms.

    Gaussian noise gives the values themselves; at the quantiles of the standard normal distribution
    the result holds the quantiles of the fitted noise.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=2, edges=1, n=100, seed=1)
    >>> gaussian = svidag.exact.posterior(example.data)
    >>> expected_noise(gaussian, np.array([-2.0, 0.5])).round(3).tolist()
    [[-2.0, -2.0], [0.5, 0.5]]
    """
    problem, distribution = posterior.problem, posterior.mechanisms
    if problem is None or distribution is None:
        raise ValueError("the noise of a fit needs its table and its mechanisms")
    graph = typical_graph(posterior)
    changing = _changing(distribution)
    if problem.environments is None or changing is None:
        equations = distribution.centre(graph[None])
    else:
        equations = changing.centre_in(int(problem.environments.labels[0]), graph[None])
    m = problem.data.m
    if _nodewise(equations) or _many_linear(equations):
        return np.repeat(normal[:, None], m, axis=1)
    typical = np.nanmedian(problem.values, axis=0)
    given = np.broadcast_to(typical, (1, len(normal), m)).copy()
    noisy = np.empty((len(normal), m))
    for j, alone in enumerate(np.eye(m, dtype=bool)):
        noise = np.repeat(normal[None, :, None], m, axis=2)
        noisy[:, j] = equations.propagate(given, noise, alone[None])[0, :, j]
    return _noise(equations, given, noisy)


def _changing(distribution: ParameterDistribution) -> EnvironmentParameters | None:
    """Parameters by environment; of a mixture, those of its first fit."""
    first = next(iter(getattr(distribution, "components", ())), distribution)
    return first if isinstance(first, EnvironmentParameters) else None


def _noise(
    equations: Equations,
    given: Float[np.ndarray, "1 R m"],
    values: Float[np.ndarray, "R m"],
) -> Float[np.ndarray, "R m"]:
    """(x − x(0))/(x(1) − x(0)) of every value; the given ones are those of its causes."""
    if isinstance(equations, EnvironmentEquations) and _nodewise(equations):
        contrast = np.broadcast_to(equations.contrasts[0], (*given.shape[:2], 1))
        beside = np.concatenate([given, contrast], axis=2)
        return _noise(equations.inner, beside, beside[0])[:, : given.shape[2]]
    if _many_linear(equations):
        assert isinstance(equations, LinearEquations)
        usual = np.nan_to_num(given[0]) @ equations.weights[0] + equations.intercept[0]
        return (values - usual) / np.maximum(equations.noise_sd[0], np.finfo(float).tiny)
    left = np.empty(given.shape[1:])
    if isinstance(equations, NodewiseEquations):
        uniform = generator(0, Stream.RESIDUALS).random(left.shape)
        for j in range(given.shape[2]):
            left[:, j] = equations.equations[0, j].noise(given[0], uniform[:, j])
        return left
    for j, alone in enumerate(np.eye(given.shape[2], dtype=bool)):
        usual, high = (
            equations.propagate(given, np.full(given.shape, noise), alone[None])[0, :, j]
            for noise in (0.0, 1.0)
        )
        left[:, j] = (values[:, j] - usual) / np.maximum(high - usual, np.finfo(float).tiny)
    return left


def _many_linear(equations: Equations) -> bool:
    """Whether equations are linear and so many that one product for all of them matters."""
    return isinstance(equations, LinearEquations) and equations.intercept.shape[1] > MANY_VARIABLES


def _nodewise(equations: Equations) -> bool:
    """Whether residuals are standard normal noise already."""
    inner = equations.inner if isinstance(equations, EnvironmentEquations) else equations
    return isinstance(inner, NodewiseEquations)
