"""Predictions of some columns of a row from its others, averaged over graphs and parameters.

    p(x_U | x_K, D) ∝ Σ_s p(x_U, x_K | A_s, θ_s).

Linear equations make each term Gaussian, so that the mean has a closed form. Otherwise candidate
values of x_U are weighed: half of them from a wide t distribution around the linear regression on
x_K, half from one around where the first half found most weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp, ndtri
from scipy.stats import chi2, qmc
from scipy.stats import t as student

from svidag.data import Dataset
from svidag.data.columns import show
from svidag.effects.arguments import index, levels_of, mechanisms, number
from svidag.effects.densities import log_densities
from svidag.effects.support import cautions, warn
from svidag.mechanisms.equations import Equations
from svidag.mechanisms.linear_parameters import LinearEquations
from svidag.posterior import Posterior
from svidag.run.streams import Stream, generator

FREEDOM = 5.0
"""Degrees of freedom of the distribution of candidates."""
WIDER = 1.5
"""Its variance, in terms of what it is to cover."""
CANDIDATES = 128
"""Candidates of each half for one column; twice as many for each further one, up to 1024."""
UNITS = 8
"""Simulated rows of each draw behind the regression that candidates start from."""
STRATA = 16
"""Points of a normal distribution behind intervals of linear predictions."""
VALUES_AT_ONCE = 5_000_000
COMBINATIONS = 1024
"""Combinations of levels of discrete columns that are predicted together, at most."""
ROWS_AT_ONCE = 100_000


def predict(
    posterior: Posterior,
    rows: Any,
    columns: Any = None,
    *,
    n: Any = 200,
    seed: int = 0,
    level: Any = None,
) -> pd.DataFrame:
    """Predict columns of rows from their others; see `Posterior.predict`.

    Examples
    --------
    >>> import svidag
    >>> table = svidag.datasets.two_node("linear", n=500).data
    >>> found = predict(svidag.exact.posterior(table), table.head(2), "x2", level=0.9)
    >>> list(found["x2"])
    ['mean', 'low', 'high']
    """
    distribution = mechanisms(posterior)
    values, unknown, labels = _read(posterior, rows, columns)
    if level is not None and not 0 < number(level, "level") < 1:
        raise ValueError(f"level must be between 0 and 1; got {level:g}")
    known = np.setdiff1d(np.arange(len(posterior.names)), unknown)
    far = [(int(k), float(x)) for k in known for x in (values[:, k].min(), values[:, k].max())]
    warn(cautions(posterior.problem, far))
    discrete = [bool(levels_of(posterior, int(j))) for j in unknown]
    equations = distribution.draw(posterior.sample(n, seed), seed)
    if any(discrete):
        return _level_probabilities(posterior, equations, values, unknown, labels)
    if isinstance(equations, LinearEquations):
        points, weights, mean = _linear(equations, values, unknown)
    else:
        points, weights, mean = weighed(equations, values, unknown, seed)
    names = [posterior.names[j] for j in unknown]
    if level is None:
        return pd.DataFrame(mean, index=labels, columns=pd.Index(names, dtype=object))
    tail = (1 - float(level)) / 2
    ends = [_quantile(points, weights, q) for q in (tail, 1 - tail)]
    parts = {"mean": mean, "low": ends[0], "high": ends[1]}
    return pd.DataFrame(
        {(name, word): part[:, k] for k, name in enumerate(names) for word, part in parts.items()},
        index=labels,
    )


def _read(
    posterior: Posterior, rows: Any, columns: Any
) -> tuple[Float[np.ndarray, "N m"], Int[np.ndarray, " u"], pd.Index]:
    """Values by column, 0 where they are to be predicted; those columns; and the rows' labels."""
    names = posterior.names
    if not isinstance(rows, pd.DataFrame):
        raise ValueError(f"rows must be a DataFrame with named columns; got {type(rows).__name__}")
    if len(rows) == 0:
        raise ValueError("rows is empty")
    if columns is None:
        wanted = [name for name in names if name not in rows.columns]
    else:
        wanted = [columns] if isinstance(columns, str) else list(columns)
    unknown = np.array(sorted({index(names, name, "a name in columns") for name in wanted}))
    if len(unknown) == 0:
        raise ValueError("rows have every column; name in columns which of them to predict")
    given = [name for j, name in enumerate(names) if j not in set(unknown.tolist())]
    absent = [name for name in given if name not in rows.columns]
    if absent:
        raise ValueError(
            f"rows lack the column {show(absent[0])}; columns must name every column that is to be "
            "predicted"
        )
    values = np.zeros((len(rows), len(names)))
    if given:
        problem = posterior.problem
        if problem is not None and problem.data.discrete.any():
            table = problem.data.encode(pd.DataFrame(rows[given]))
        else:
            table = Dataset.from_any(rows[given], kinds="continuous").values
        if not np.isfinite(table).all():
            raise ValueError("rows have missing or infinite values in columns that are given")
        values[:, [names.index(name) for name in given]] = table
    return values, unknown, rows.index


def _level_probabilities(
    posterior: Posterior,
    equations: Equations,
    values: Float[np.ndarray, "N m"],
    unknown: Int[np.ndarray, " u"],
    labels: pd.Index,
) -> pd.DataFrame:
    """P(column = level | the others) of every level: all combinations of levels are weighed."""
    levels = [levels_of(posterior, int(j)) for j in unknown]
    names = [posterior.names[j] for j in unknown]
    if not all(levels):
        plain = next(name for name, own in zip(names, levels, strict=True) if not own)
        raise ValueError(
            f"columns are of different kinds: {show(plain)} cannot be predicted together with "
            "discrete columns; give it in rows, or predict discrete columns alone"
        )
    count = int(np.prod([len(own) for own in levels]))
    if count > COMBINATIONS:
        raise ValueError(
            f"columns have {count} combinations of values; predict fewer of them at a time"
        )
    grid = np.stack(np.meshgrid(*(np.arange(float(len(own))) for own in levels), indexing="ij"), -1)
    grid = grid.reshape(count, len(unknown))
    log_p = np.concatenate(
        [
            _log_joint(equations, part, unknown, np.repeat(grid[None], len(part), axis=0))
            for part in np.array_split(values, -(-len(values) * count // ROWS_AT_ONCE))
        ]
    )
    share = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
    return pd.DataFrame(
        {
            (name, level): share[:, grid[:, k] == code].sum(axis=1)
            for k, (name, own) in enumerate(zip(names, levels, strict=True))
            for code, level in enumerate(own)
        },
        index=labels,
    )


def _linear(
    equations: LinearEquations, values: Float[np.ndarray, "N m"], unknown: Int[np.ndarray, " u"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points and weights of the mixture of Gaussians, and its mean."""
    m = values.shape[1]
    known = np.setdiff1d(np.arange(m), unknown)
    solved = np.linalg.inv(np.eye(m) - equations.weights)  # x = (c + σ ε) solved
    centre = (equations.intercept[:, None] @ solved)[:, 0]
    spread = solved.swapaxes(1, 2) @ (equations.noise_sd[..., None] ** 2 * solved)
    inner, across = spread[:, known[:, None], known], spread[:, known[:, None], unknown]
    away = values[:, known] - centre[:, None, known]
    slopes = np.linalg.solve(inner, across)
    means = centre[:, None, unknown] + away @ slopes
    sds = np.sqrt(
        np.diagonal(spread[:, unknown[:, None], unknown], axis1=1, axis2=2)
        - np.einsum("sku,sku->su", across, slopes)
    )
    squares = np.einsum(
        "snk,snk->sn", away, np.linalg.solve(inner, away.swapaxes(1, 2)).swapaxes(1, 2)
    )
    log_weight = -0.5 * (squares + np.linalg.slogdet(inner)[1][:, None])
    weight = np.exp(log_weight - logsumexp(log_weight, axis=0)).T
    strata = ndtri((np.arange(STRATA) + 0.5) / STRATA)
    points = means[:, :, None] + sds[:, None, None] * strata[:, None]
    points = points.transpose(1, 0, 2, 3).reshape(len(values), -1, len(unknown))
    return (
        points,
        np.repeat(weight / STRATA, STRATA, axis=1),
        np.einsum("ns,snu->nu", weight, means),
    )


def weighed(
    equations: Equations,
    values: Float[np.ndarray, "N m"],
    unknown: Int[np.ndarray, " u"],
    seed: int,
) -> tuple[Float[np.ndarray, "N G u"], Float[np.ndarray, "N G"], Float[np.ndarray, "N u"]]:
    """Candidate values with their weights, and the weighted means."""
    size = min(1024, CANDIDATES * 2 ** (len(unknown) - 1))
    centre, spread = _regression(equations, values, unknown, seed)
    halves = [_points(size, len(unknown), seed, k) for k in range(2)]
    found = []
    step = max(1, VALUES_AT_ONCE // (2 * size * len(equations.graphs)))
    for start in range(0, len(values), step):
        part = slice(start, start + step)
        found.append(_weigh(equations, values[part], unknown, centre[part], spread, halves))
    points, weights = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return points, weights, np.einsum("ng,ngu->nu", weights, points)


def _weigh(
    equations: Equations,
    values: Float[np.ndarray, "N m"],
    unknown: Int[np.ndarray, " u"],
    centre: Float[np.ndarray, "N u"],
    spread: Float[np.ndarray, "u u"],
    halves: Sequence[Float[np.ndarray, "G u"]],
) -> tuple[Float[np.ndarray, "N H u"], Float[np.ndarray, "N H"]]:
    root = np.linalg.cholesky(spread)
    first = centre[:, None] + halves[0] @ root.T
    log_p = _log_joint(equations, values, unknown, first)
    log_q = _log_t(first, centre, spread)
    weights = np.exp(log_p - log_q - logsumexp(log_p - log_q, axis=1, keepdims=True))
    middles = np.einsum("ng,ngu->nu", weights, first)
    away = first - middles[:, None]
    spreads = WIDER * np.einsum("ng,ngu,ngv->nuv", weights, away, away) + 1e-4 * spread
    second = middles[:, None] + halves[1] @ np.linalg.cholesky(spreads).swapaxes(1, 2)
    points = np.concatenate([first, second], axis=1)
    log_p = np.concatenate([log_p, _log_joint(equations, values, unknown, second)], axis=1)
    log_q = np.logaddexp(_log_t(points, centre, spread), _log_t(points, middles, spreads))
    return points, np.exp(log_p - log_q - logsumexp(log_p - log_q, axis=1, keepdims=True))


def _log_t(
    points: Float[np.ndarray, "N G u"],
    centre: Float[np.ndarray, "N u"],
    spread: Float[np.ndarray, "*rows u u"],
) -> Float[np.ndarray, "N G"]:
    """The log density of the candidates' distribution, up to a constant."""
    away = points - centre[:, None]
    squares = (away * np.linalg.solve(spread, away.swapaxes(1, 2)).swapaxes(1, 2)).sum(axis=2)
    power = 0.5 * (FREEDOM + points.shape[2])
    scale = np.reshape(0.5 * np.linalg.slogdet(spread)[1], (-1, 1))
    return -scale - power * np.log1p(squares / FREEDOM)


def _log_joint(
    equations: Equations,
    values: Float[np.ndarray, "N m"],
    unknown: Int[np.ndarray, " u"],
    candidates: Float[np.ndarray, "N G u"],
) -> Float[np.ndarray, "N G"]:
    """log Σ_s p(row with the candidates | A_s, θ_s); other nodes are looked at once per row."""
    size, (rows, count) = len(equations.graphs), candidates.shape[:2]
    full = np.repeat(values[:, None], count, axis=1)
    full[:, :, unknown] = candidates
    flat = full.reshape(rows * count, -1)
    total = np.zeros((size, rows, count))
    touched = _touched(equations, unknown)
    for j in range(values.shape[1]):
        for which, table in ((touched[:, j], flat), (~touched[:, j], values)):
            s = np.flatnonzero(which)
            if len(s):
                terms = log_densities(equations, np.full(len(s), j), table, s)
                total[s] += terms.reshape(len(s), rows, -1)
    return np.asarray(logsumexp(total, axis=0))


def _touched(equations: Equations, unknown: Int[np.ndarray, " u"]) -> Bool[np.ndarray, "S m"]:
    """Nodes whose density changes with the candidates: these, and their effects."""
    touched = np.asarray(equations.graphs[:, unknown].any(axis=1))
    touched[:, unknown] = True
    return touched


def _regression(
    equations: Equations,
    values: Float[np.ndarray, "N m"],
    unknown: Int[np.ndarray, " u"],
    seed: int,
) -> tuple[Float[np.ndarray, "N u"], Float[np.ndarray, "u u"]]:
    """Mean and covariance of the unknown given the known, linear, in rows of the equations."""
    size, m = equations.graphs.shape[:2]
    noise = generator(seed, Stream.PREDICTIONS).standard_normal((size, UNITS, m))
    free = np.ones((size, m), dtype=bool)
    drawn = equations.propagate(np.full(noise.shape, np.nan), noise, free).reshape(-1, m)
    known = np.setdiff1d(np.arange(m), unknown)
    low, high = np.quantile(drawn, [0.005, 0.995], axis=0)  # tails may have no variance
    drawn = np.clip(drawn, low, high)
    middle = drawn.mean(axis=0)
    slopes = np.linalg.lstsq(drawn[:, known] - middle[known], drawn[:, unknown] - middle[unknown])[
        0
    ]
    left = drawn[:, unknown] - middle[unknown] - (drawn[:, known] - middle[known]) @ slopes
    spread = WIDER * (left.T @ left) / len(left)
    spread += 1e-9 * np.diag(1e-300 + drawn[:, unknown].var(axis=0))
    return middle[unknown] + (values[:, known] - middle[known]) @ slopes, spread


def _points(size: int, columns: int, seed: int, half: int) -> Float[np.ndarray, "G u"]:
    """Points that fill a t distribution evenly, shifted at random."""
    rng = generator(seed, Stream.PREDICTIONS, half + 1)
    even = (qmc.Sobol(columns + 1, scramble=False).random(size) + rng.random(columns + 1)) % 1.0
    even = np.clip(even, 1e-12, 1 - 1e-12)
    if columns == 1:
        return student(FREEDOM).ppf(even[:, :1])
    scale = np.sqrt(FREEDOM / chi2(FREEDOM).ppf(even[:, -1:]))
    return ndtri(even[:, :-1]) * scale


def _quantile(
    points: Float[np.ndarray, "N G u"], weights: Float[np.ndarray, "N G"], q: float
) -> Float[np.ndarray, "N u"]:
    order = np.argsort(points, axis=1)
    ranked = np.take_along_axis(points, order, axis=1)
    below = np.take_along_axis(np.broadcast_to(weights[..., None], points.shape), order, axis=1)
    place = (below.cumsum(axis=1) < q).sum(axis=1, keepdims=True)
    return np.take_along_axis(ranked, np.minimum(place, points.shape[1] - 1), axis=1)[:, 0]
