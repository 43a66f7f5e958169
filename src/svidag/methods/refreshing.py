"""Missing cells drawn anew from fitted mechanisms, by Markov chain Monte Carlo.

Given a graph and its parameters, the missing cell of column j in a row has the density

    p(x_j | the rest of the row) ∝ p(x_j | parents) Π_{k child of j} p(x_k | parents of k),

without the factor of a node that was set from outside. Candidates come from a wide t distribution
around the linear regression on all other columns; the present value and the candidates are weighed
by target over proposal, and one of them is taken in proportion (iterated sampling importance
resampling), which leaves the target invariant.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int

from svidag.effects.densities import log_densities
from svidag.mechanisms.equations import Equations

SWEEPS = 5
"""Rounds over all columns."""
CANDIDATES = 15
"""Candidates of a cell in each round."""
FREEDOM = 3.0
"""Degrees of freedom of their distribution."""
WIDER = 1.5
"""Their scale, in residual standard deviations."""


def refresh(
    equations: Equations,
    table: Float64[np.ndarray, "N m"],
    missing: Bool[np.ndarray, "N m"],
    intervened: Bool[np.ndarray, "N m"],
    rng: np.random.Generator,
    sweeps: int = SWEEPS,
) -> Float64[np.ndarray, "N m"]:
    """The table with its missing cells drawn anew by the equations of one graph.

    Cells that were set from outside keep their values: no equation speaks of them.
    """
    table, wanted = np.array(table), missing & ~intervened
    columns = np.flatnonzero(wanted.any(axis=0))
    for _ in range(sweeps):
        for j in columns:
            rows = np.flatnonzero(wanted[:, j])
            table[rows, j] = _redraw(equations, table, int(j), rows, intervened, rng)
    return table


def _redraw(
    equations: Equations,
    table: Float64[np.ndarray, "N m"],
    j: int,
    rows: Int[np.ndarray, " R"],
    intervened: Bool[np.ndarray, "N m"],
    rng: np.random.Generator,
) -> Float64[np.ndarray, " R"]:
    others = np.delete(table, j, axis=1)
    design = np.column_stack([np.ones(len(table)), others])
    free = ~intervened[:, j]
    weights = np.linalg.lstsq(design[free], table[free, j])[0]
    left = table[free, j] - design[free] @ weights
    centre, scale = design[rows] @ weights, WIDER * max(float(left.std()), 1e-12)
    fresh = centre[:, None] + scale * rng.standard_t(FREEDOM, (len(rows), CANDIDATES))
    points = np.column_stack([table[rows, j], fresh])
    away = (points - centre[:, None]) / scale
    proposal = -0.5 * (FREEDOM + 1) * np.log1p(away**2 / FREEDOM)  # up to a constant
    weight = _log_target(equations, table[rows], points, j, intervened[rows]) - proposal
    gumbel = rng.gumbel(size=weight.shape)
    chosen = np.argmax(np.where(np.isnan(weight), -np.inf, weight) + gumbel, axis=1)
    return points[np.arange(len(rows)), chosen]


def _log_target(
    equations: Equations,
    rows: Float64[np.ndarray, "R m"],
    points: Float64[np.ndarray, "R c"],
    j: int,
    intervened: Bool[np.ndarray, "R m"],
) -> Float64[np.ndarray, "R c"]:
    """log p of rows in which column j has each of these values, up to what it does not affect."""
    count = points.shape[1]
    trial = np.repeat(rows, count, axis=0)
    trial[:, j] = points.ravel()
    found = np.zeros(len(trial))
    for node in (j, *np.flatnonzero(equations.graphs[0, j])):
        counts = np.repeat(~intervened[:, node], count)
        found += np.where(counts, log_densities(equations, np.array([node]), trial)[0], 0.0)
    return found.reshape(points.shape)
