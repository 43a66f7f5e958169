"""Whether a fit explains its table: noise is independent between variables and between rows.

If graph and mechanisms are right, the residuals e_1, …, e_m are independent of each other, and rows
are independent of their neighbours. With u the ranks of a residual over N and the features
c_k(u) = √2 cos(πku), k = 1, …, 4,

    T_ij = N Σ_kl mean(c_k(u_i) c_l(u_j))²    is χ² with 16 degrees of freedom

for every pair of variables; neighbouring rows are compared in the same way. Only the order of the
residuals counts, so that their distribution, however heavy its tails, does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.special import chdtrc

from svidag.posterior.residuals import residuals

if TYPE_CHECKING:
    from svidag.posterior.posterior import Posterior

FEATURES = 4
"""Cosines of the ranks of every residual."""

CHANCE = 0.01
"""Probability that a fit which explains its table fails the check."""

NEIGHBOUR_CHANCE = 1e-4
"""The same for rows that depend on their neighbours."""

ROWS, BLOCK = 10_000, 100
"""Rows looked at, at most, and how many of them are neighbours where not all are looked at."""

FEWEST = 20
"""Fewer rows say nothing."""


@dataclass(frozen=True)
class FitCheck:
    """How far residuals depend on each other.

    Attributes
    ----------
    p_value
        The probability of residuals that depend on each other as much, by chance.
    pair
        The two variables whose residuals depend on each other most.
    excess
        T/N of that pair, less what chance gives: a size that does not grow with the rows.
    neighbour_p_value
        The probability of neighbouring rows that are as alike, by chance.
    neighbour_correlation
        The rank correlation of neighbouring rows.

    Examples
    --------
    >>> FitCheck(0.4, ("a", "b"), 0.001, 0.8, 0.01).passed
    True
    """

    p_value: float
    pair: tuple[str, str]
    excess: float
    neighbour_p_value: float
    neighbour_correlation: float

    @property
    def explained(self) -> bool:
        """Whether residuals of different variables may be independent."""
        return self.p_value >= CHANCE

    @property
    def rows_independent(self) -> bool:
        """Whether neighbouring rows may be independent."""
        return self.neighbour_p_value >= NEIGHBOUR_CHANCE

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the fit."""
        return self.explained and self.rows_independent

    def effective_rows(self, rows: int) -> float:
        """How many independent rows so many rows are worth, N (1 − ρ)/(1 + ρ).

        Examples
        --------
        >>> FitCheck(0.4, ("a", "b"), 0.001, 1e-9, 0.5).effective_rows(300)
        100.0
        """
        if self.rows_independent:
            return float(rows)
        rho = min(max(self.neighbour_correlation, 0.0), 0.99)
        return rows * (1 - rho) / (1 + rho)

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        if not self.rows_independent:
            return (
                "neighbouring rows are alike (a correlation of "
                f"{self.neighbour_correlation:.2f}), so that they are worth fewer independent rows"
            )
        first, second = self.pair
        if not self.explained:
            return (
                f"the fit does not explain the table: the noise of {first} and that of {second} "
                f"depend on each other ({_chance(self.p_value)})"
            )
        return "the noise of different variables is independent, as it must be if the fit is right"


def check_fit(posterior: Posterior, groups: Int[np.ndarray, " N"] | None = None) -> FitCheck | None:
    """Check residuals of a typical draw; None where there are too few rows or no mechanisms.

    Where rows come in groups, neighbours are rows of one group.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=400, seed=1)
    >>> check_fit(svidag.exact.posterior(example.data)).passed
    True
    """
    problem = posterior.problem
    if posterior.mechanisms is None or problem is None or problem.data.m < 2:
        return None
    n = problem.data.n_rows
    if n < FEWEST:
        return None
    order = np.arange(n) if groups is None else np.argsort(groups, kind="stable")
    rows = order[_blocks(n)]
    return _check(
        residuals(posterior, rows), posterior.names, None if groups is None else groups[rows]
    )


def _check(
    left: Float[np.ndarray, "R m"],
    names: tuple[str, ...],
    groups: Int[np.ndarray, " R"] | None,
) -> FitCheck:
    features = [_features(column) for column in left.T]
    known = np.isfinite(left)
    statistic, freedom, count = _dependence(features, known)
    upper = np.triu_indices(len(names), 1)
    chances = chdtrc(freedom[upper], statistic[upper])
    usable = freedom[upper] > 0
    most = int(np.argmin(np.where(usable, chances, 2.0)))
    i, j = int(upper[0][most]), int(upper[1][most])
    all_pairs = chdtrc(max(1, freedom[upper][usable].sum()), statistic[upper][usable].sum())
    p_value = 2 * min(chances[most] * max(1, usable.sum()), float(all_pairs))
    excess = (statistic[i, j] - freedom[i, j]) / max(1, count[i, j])
    follow = np.ones(len(left) - 1, bool) if groups is None else groups[1:] == groups[:-1]
    neighbour_p, correlation = _neighbours(features, follow)
    return FitCheck(
        float(min(1.0, p_value)),
        (names[i], names[j]),
        float(max(0.0, excess)),
        neighbour_p,
        correlation,
    )


def _blocks(n: int) -> Int[np.ndarray, " R"]:
    """All rows, or blocks of neighbours spread over the table."""
    if n <= ROWS:
        return np.arange(n)
    starts = np.linspace(0, n - BLOCK, ROWS // BLOCK).astype(np.int64)
    return (starts[:, None] + np.arange(BLOCK)).ravel()


def _features(left: Float[np.ndarray, " R"]) -> Float[np.ndarray, "R d"]:
    """Cosines of the ranks, uncorrelated and with mean 0 and variance 1; 0 where there is no value.

    Residuals with few different values have fewer of them.
    """
    known = np.isfinite(left)
    result = np.zeros((len(left), FEATURES))
    if known.sum() < FEWEST:
        return result[:, :0]
    u = (pd.Series(left[known]).rank().to_numpy() - 0.5) / known.sum()
    raw = np.sqrt(2) * np.cos(np.pi * np.outer(u, np.arange(1, FEATURES + 1)))
    basis, size = np.linalg.qr(raw - raw.mean(axis=0))
    kept = np.abs(np.diag(size)) > 1e-6 * np.sqrt(known.sum())
    result[known] = basis * np.sqrt(known.sum())
    return result[:, kept]


def _dependence(
    features: list[np.ndarray], known: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """T, its degrees of freedom and the rows it rests on, for every pair of variables."""
    sizes = np.array([part.shape[1] for part in features])
    whole = np.concatenate(features, axis=1)
    owner = np.repeat(np.arange(len(features)), sizes)
    member = owner[:, None] == np.arange(len(features))
    count = known.T.astype(float) @ known
    squares = member.T @ (whole.T @ whole) ** 2 @ member
    return squares / np.maximum(count, 1), np.outer(sizes, sizes), count


def _neighbours(features: list[np.ndarray], follow: np.ndarray) -> tuple[float, float]:
    """The chance and the correlation of neighbouring rows, of the variable second in line.

    A table that is sorted by one column has neighbours that are alike in that column alone.
    """
    found = []
    for part in features:
        if part.shape[1] == 0 or not follow.any():
            found.append((1.0, 0.0))
            continue
        products = part[1:][follow].T @ part[:-1][follow]
        chance = chdtrc(part.shape[1] ** 2, (products**2).sum() / follow.sum())
        found.append((float(chance), float(products[0, 0] / follow.sum())))
    chance = sorted(chance for chance, _ in found)[1] * len(found)
    return min(1.0, chance), sorted(rho for _, rho in found)[-2]


def _chance(p: float) -> str:
    """A probability in words.

    Examples
    --------
    >>> _chance(0.004), _chance(1e-9)
    ('p = 0.004', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
