"""Linear relations among columns, exact and nearly so."""

import hashlib
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float64
from scipy.linalg import solve_triangular

from svidag.data.scaling import centre_and_scale

EXACT = 1e-8
"""Residual, in standard deviations of the column, up to which a linear relation is exact."""
NEAR = 0.01
"""Share of variance left unexplained by the other columns below which a relation is near."""
WELL_CONDITIONED = 1e-6
"""Least eigenvalue of the correlations above which their Cholesky factor has ten right digits."""
SPARE_ROWS = 10
"""Rows beyond the number of columns that a regression on all the others needs to mean anything."""
BLOCK = 1 << 16

Values = Float64[np.ndarray, "N m"]


def identical(values: Values) -> list[list[int]]:
    """Return the groups of columns that are equal in every row.

    Examples
    --------
    >>> identical(np.array([[1.0, 2.0, 1.0], [3.0, 0.0, 3.0]]))
    [[0, 2]]
    """
    groups: dict[bytes, list[int]] = {}
    for j in range(values.shape[1]):
        column = values[:, j] + 0.0  # -0.0 equals 0.0
        groups.setdefault(hashlib.blake2b(column.tobytes()).digest(), []).append(j)
    return [group for group in groups.values() if len(group) > 1]


def exact(values: Values) -> Iterator[list[int]]:
    """Yield each column that is an affine function of earlier ones, followed by those.

    With N ≤ m rows, centred columns are always dependent, so only pairs are checked.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> list(exact(np.column_stack([x, x[:, 0] - 2 * x[:, 2] + 1])))
    [[3, 0, 2]]
    """
    n, m = values.shape
    if m < 2:
        return
    centre, scale = _moments(values)
    rounding = np.finfo(np.float64).eps * np.abs(values).max(axis=0) / scale
    tolerance = np.maximum(EXACT, 64 * rounding)
    if n <= m:
        yield from _proportional((values - centre) / scale / np.sqrt(n), tolerance)
    else:
        yield from _dependent(_triangle(values, centre, scale), tolerance)


def near(values: Values) -> list[tuple[list[int], float]]:
    """Return the near-linear relations, each with the share of variance it leaves unexplained.

    The share is 1 − adjusted R² of the first column on all others; those named carry at least a
    tenth of the largest weight. Columns must not be exactly collinear.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> [(relation, share)] = near(np.column_stack([x[:, :2], x[:, 0] + 0.01 * x[:, 2]]))
    >>> sorted(relation), share < 0.01
    ([0, 2], True)
    """
    n, m = values.shape
    if n - m < SPARE_ROWS:
        return []
    # With P the inverse of the correlations, 1 − R²_j = 1 / P_jj and the weights are −P_jk / P_jj.
    inverse = solve_triangular(_triangle(values, *_moments(values)), np.eye(m))
    precision = inverse @ inverse.T
    unexplained = (n - 1) / (n - m) / np.diag(precision)
    relations: dict[frozenset[int], tuple[list[int], float]] = {}
    for j in np.argsort(unexplained, kind="stable"):
        if unexplained[j] < NEAR:
            weights = np.abs(precision[j])
            weights[j] = 0
            others = np.flatnonzero(weights >= weights.max() / 10).tolist()
            relations.setdefault(
                frozenset([int(j), *others]), ([int(j), *others], float(unexplained[j]))
            )
    return list(relations.values())


def _moments(values: Values) -> tuple[Float64[np.ndarray, " m"], Float64[np.ndarray, " m"]]:
    moments = np.array([centre_and_scale(column) for column in values.T])
    return moments[:, 0], moments[:, 1]


def _triangle(
    values: Values, centre: Float64[np.ndarray, " m"], scale: Float64[np.ndarray, " m"]
) -> Float64[np.ndarray, "m m"]:
    """Return the triangular R with RᵀR the correlations.

    Cholesky's factor of the correlations, unless columns are so nearly dependent that it would lose
    small residuals; then by QR over blocks of rows, which keeps them to full precision and takes
    seven times as long.
    """
    m = values.shape[1]
    correlation = np.zeros((m, m))
    for block in _blocks(values, centre, scale):
        correlation += block.T @ block
    correlation /= len(values)
    if np.linalg.eigvalsh(correlation)[0] > WELL_CONDITIONED:
        return np.linalg.cholesky(correlation, upper=True)
    triangle = np.empty((0, m))
    for block in _blocks(values, centre, scale):
        triangle = np.linalg.qr(np.vstack([triangle, block]), mode="r")
    return triangle / np.sqrt(len(values))


def _blocks(
    values: Values, centre: Float64[np.ndarray, " m"], scale: Float64[np.ndarray, " m"]
) -> Iterator[Values]:
    for start in range(0, len(values), BLOCK):
        yield (values[start : start + BLOCK] - centre) / scale


def _dependent(
    triangle: Float64[np.ndarray, "m m"], tolerance: Float64[np.ndarray, " m"]
) -> Iterator[list[int]]:
    if np.all(np.abs(np.diag(triangle)) > tolerance):
        return
    basis: list[int] = []
    for j, column in enumerate(triangle.T):
        weights = np.linalg.lstsq(triangle[:, basis], column)[0]
        if np.linalg.norm(column - triangle[:, basis] @ weights) > tolerance[j]:
            basis.append(j)
        else:
            heavy = np.flatnonzero(np.abs(weights) > 1e-6 * np.abs(weights).max())
            yield [j, *(basis[k] for k in heavy)]


def _proportional(
    unit: Float64[np.ndarray, "N m"], tolerance: Float64[np.ndarray, " m"]
) -> Iterator[list[int]]:
    correlation = unit.T @ unit
    for j in range(unit.shape[1]):
        for i in np.flatnonzero(np.abs(correlation[:j, j]) > 1 - 1e-9):
            gap = unit[:, j] - np.sign(correlation[i, j]) * unit[:, i]
            if np.linalg.norm(gap) <= tolerance[j]:
                yield [j, int(i)]
                break
