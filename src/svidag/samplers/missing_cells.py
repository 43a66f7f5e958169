"""Missing cells drawn anew from fitted mechanisms, by Markov chain Monte Carlo.

Given a graph and its parameters, the missing cell of column j in a row has the density

    p(x_j | the rest of the row) ∝ p(x_j | parents) Π_{k child of j} p(x_k | parents of k),

without the factor of a node that was set from outside. A discrete column has few values: each is
weighed, and one is drawn. Elsewhere candidates come from a wide t distribution around the linear
regression on all other columns; the present value and the candidates are weighed by target over
proposal, and one of them is taken in proportion (iterated sampling importance resampling), which
leaves the target invariant. Candidates of a count are drawn as log(1 + x) and rounded.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy.special import stdtr

from svidag.data.coding import Coding
from svidag.data.kinds import Kind
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


def redraw_cells(
    equations: Equations,
    table: Float64[np.ndarray, "N m"],
    missing: Bool[np.ndarray, "N m"],
    intervened: Bool[np.ndarray, "N m"],
    rng: np.random.Generator,
    sweeps: int = SWEEPS,
    coding: Coding | None = None,
) -> Float64[np.ndarray, "N m"]:
    """The table with its missing cells drawn anew by the equations of one graph.

    Cells that were set from outside keep their values: no equation speaks of them. Columns are
    continuous unless `coding` says otherwise.
    """
    coding = Coding.of_numbers(table.shape[1]) if coding is None else coding
    table, wanted = np.array(table), missing & ~intervened
    columns = np.flatnonzero(wanted.any(axis=0))
    for _ in range(sweeps):
        for j in columns:
            rows = np.flatnonzero(wanted[:, j])
            table[rows, j] = _redraw_column(equations, table, int(j), rows, intervened, coding, rng)
    return table


def _redraw_column(
    equations: Equations,
    table: Float64[np.ndarray, "N m"],
    j: int,
    rows: Int[np.ndarray, " R"],
    intervened: Bool[np.ndarray, "N m"],
    coding: Coding,
    rng: np.random.Generator,
) -> Float64[np.ndarray, " R"]:
    if coding.sizes[j]:
        points = np.tile(np.arange(float(coding.sizes[j])), (len(rows), 1))
        proposal = np.zeros(points.shape)
    else:
        points, proposal = _candidates(table, j, rows, ~intervened[:, j], coding, rng)
    weight = _log_target(equations, table[rows], points, j, intervened[rows]) - proposal
    gumbel = rng.gumbel(size=weight.shape)
    chosen = np.argmax(np.where(np.isnan(weight), -np.inf, weight) + gumbel, axis=1)
    return points[np.arange(len(rows)), chosen]


def _candidates(
    table: Float64[np.ndarray, "N m"],
    j: int,
    rows: Int[np.ndarray, " R"],
    free: Bool[np.ndarray, " N"],
    coding: Coding,
    rng: np.random.Generator,
) -> tuple[Float64[np.ndarray, "R c"], Float64[np.ndarray, "R c"]]:
    """The present value and others for each cell, and how probable they are as candidates.

    The logarithm of that probability is up to a constant.
    """
    others = coding.features(table, np.delete(np.arange(table.shape[1]), j))
    design = np.column_stack([np.ones(len(table)), others])
    y = coding.features(table, np.array([j]))[:, 0]
    weights = np.linalg.lstsq(design[free], y[free])[0]
    left = y[free] - design[free] @ weights
    centre, scale = design[rows] @ weights, WIDER * max(float(left.std()), 1e-12)
    fresh = centre[:, None] + scale * rng.standard_t(FREEDOM, (len(rows), CANDIDATES))
    if coding.kinds[j] is not Kind.COUNT:
        points = np.column_stack([table[rows, j], fresh])
        away = (points - centre[:, None]) / scale
        return points, -0.5 * (FREEDOM + 1) * np.log1p(away**2 / FREEDOM)
    largest = 10.0 * (1.0 + table[:, j].max())  # far above, e^x would overflow
    whole = np.maximum(np.round(np.expm1(np.minimum(fresh, np.log1p(largest)))), 0.0)
    points = np.column_stack([table[rows, j], whole])
    low = np.where(points > 0, np.log(np.maximum(points, 0.5) + 0.5), -np.inf)
    high = np.where(points < np.round(largest), np.log(points + 1.5), np.inf)
    below, above = (stdtr(FREEDOM, (end - centre[:, None]) / scale) for end in (low, high))
    return points, np.log(np.maximum(above - below, np.finfo(float).tiny))


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
