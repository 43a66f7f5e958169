"""Missing cells: which they are, and tables completed by chained draws.

Columns with missing cells are drawn in turn, many times over, each given all others. A column is
regressed on the others over the rows where it is known; with coefficients b drawn from their
posterior, a missing cell takes the value of a row whose own prediction is among the nearest to
bᵀx (predictive mean matching). So only values that occur are filled in, and skewed, heavy-tailed
or discrete columns stay what they are. Columns enter by their kind (:mod:`svidag.data.coding`); a
categorical column has one prediction for each level, and rows are near if all of them are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from svidag.data.audit import MIN_ROWS, AuditError, Finding, require_usable
from svidag.data.coding import Coding
from svidag.data.columns import listing, show
from svidag.data.dataset import Dataset
from svidag.data.environments import Environments
from svidag.data.scaling import read_only

ROUNDS, BETWEEN = 10, 5
"""Rounds over all columns before the first table, and between one table and the next."""
DONORS = 5
"""Rows with the nearest predictions, one of which gives its value."""
PREDICTORS = 30
"""Columns that a column is regressed on, at most: those with the largest correlations."""
RIDGE = 1.0
"""Precision of coefficients beforehand, in units of one row of standardised columns."""
ROWS_PER_CURVE = 20
"""Known values for each predictor from which columns are also regressed on curved functions of it,
u = x/√(1 + x²) and u²; they grow no further with x, so that outliers have no leverage by them."""
JITTER = 1e-6
"""Noise of predictions in a table with discrete columns, in units of their spread: many rows have
the same prediction there, and each cell is to find other ones of them."""
FEWEST = 5
"""Known values of a column below which it cannot be completed."""


@dataclass(frozen=True, eq=False)
class MissingCells:
    """The missing cells of a table, and draws of their values, one for each completed table.

    Attributes
    ----------
    mask
        True where the table has no value.
    draws
        Values of these cells, in the order of rows and columns, in the units of the table.

    Examples
    --------
    >>> cells = MissingCells(np.array([[False, True], [True, False]]), np.array([[1.0, 2.0]]))
    >>> cells.complete(np.array([[5.0, np.nan], [np.nan, 6.0]]), 0).tolist()
    [[5.0, 1.0], [2.0, 6.0]]
    >>> cells.share.tolist()
    [0.5, 0.5]
    """

    mask: Bool[np.ndarray, "N m"]
    draws: Float64[np.ndarray, "K cells"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", read_only(self.mask, np.bool_))
        object.__setattr__(self, "draws", read_only(self.draws, np.float64))

    @property
    def tables(self) -> int:
        """How many tables were completed."""
        return len(self.draws)

    @property
    def share(self) -> Float[np.ndarray, " m"]:
        """The share of missing cells of each column."""
        return self.mask.mean(axis=0)

    def complete(
        self, values: Float64[np.ndarray, "N m"], table: int
    ) -> Float64[np.ndarray, "N m"]:
        """The table with the cells of one draw."""
        completed = np.array(values)
        completed[self.mask] = self.draws[table]
        return completed


def impute(
    data: Dataset,
    tables: int,
    rng: np.random.Generator,
    environments: Environments | None = None,
) -> tuple[Dataset, MissingCells]:
    """The first of so many completed tables, and what is missing.

    Contrasts between environments are further columns that cells are drawn by.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> x[3, 1] = np.nan
    >>> completed, cells = impute(Dataset.from_any(x), 4, np.random.default_rng(1))
    >>> bool(completed.values[3, 1] == cells.draws[0, 0]), cells.draws.shape
    (True, (4, 1))
    """
    mask = np.isnan(data.values)
    require_usable(data.names, np.where(mask, 0.0, data.values))
    values, intervened, coding = data.values, data.intervened, data.coding
    if environments is not None:
        contrasts = environments.contrasts()[1]
        values = np.column_stack([values, contrasts])
        intervened = np.column_stack([intervened, np.zeros(contrasts.shape, dtype=bool)])
        coding = coding.and_numbers(contrasts.shape[1])
    drawn = completed_tables(data.names, values, intervened, rng, coding)
    found = [next(drawn)[:, : data.m][mask] for _ in range(tables)]
    cells = MissingCells(mask, np.array(found))
    return replace(data, values=cells.complete(data.values, 0)), cells


def complete_rows(
    data: Dataset,
    groups: Int[np.ndarray, " N"] | None = None,
    environments: Environments | None = None,
) -> tuple[Dataset, Int[np.ndarray, " n"] | None, Environments | None, tuple[Finding, ...]]:
    """The rows without missing cells, their groups and environments, and what was left out.

    Examples
    --------
    >>> x = np.array([[1.0, 2.0], [np.nan, 1.0], [2.0, 5.0], [3.0, 1.0]])
    >>> complete_rows(Dataset.from_any(x))[0].n_rows
    3
    """
    missing = np.isnan(data.values)
    kept = ~np.asarray(missing.any(axis=1))
    if kept.all():
        return data, groups, environments, ()
    names = [
        name for name, some in zip(data.names, np.asarray(missing.any(axis=0)), strict=True) if some
    ]
    text = (
        f"{np.count_nonzero(~kept):,} of {len(kept):,} rows have missing values (in "
        f"{listing(names)}) and were left out"
    )
    if kept.sum() < MIN_ROWS:
        advice = 'too few remain: missing="impute" keeps them, or drop the columns'
        raise AuditError((Finding("missing", tuple(names), f"{text}; {advice}"),))
    part = replace(data, values=data.values[kept], intervened=data.intervened[kept])
    labels = None if groups is None else groups[kept]
    contexts = None if environments is None else environments.rows(np.flatnonzero(kept))
    return part, labels, contexts, (Finding("left-out", tuple(names), text),)


def completed_tables(
    names: tuple[str, ...],
    values: Float64[np.ndarray, "N m"],
    intervened: Bool[np.ndarray, "N m"],
    rng: np.random.Generator,
    coding: Coding | None = None,
) -> Iterator[Float64[np.ndarray, "N m"]]:
    """Completed tables without end; the first ones do not depend on how many are asked for.

    Columns are continuous unless `coding` says otherwise.

    Where a column was set from outside, missing cells take values to which it was set, and
    elsewhere those that it took by itself.

    Raises
    ------
    AuditError
        If a column has too few known values.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 1)) + np.array([0.0, 0.1]) * rng.normal(size=(200, 2))
    >>> x[:50, 1] = np.nan
    >>> tables = completed_tables(("a", "b"), x, np.zeros(x.shape, bool), rng)
    >>> bool(np.corrcoef(next(tables)[:50].T)[0, 1] > 0.95)
    True
    """
    missing = np.isnan(values)
    coding = Coding.of_numbers(values.shape[1]) if coding is None else coding
    parts = [(int(j), *part) for j in np.flatnonzero(missing.any(axis=0))
             for part in _strata(missing[:, j], intervened[:, j])]  # fmt: skip
    for j, known, wanted in parts:
        _require_known(names[j], len(known), len(wanted), bool(intervened[wanted[0], j]))
    table = np.array(values)
    for j, known, wanted in parts:
        table[wanted, j] = rng.choice(values[known, j], len(wanted))
    rounds = ROUNDS
    while True:
        for _ in range(rounds):
            for j, known, wanted in parts:
                table[wanted, j] = _draw_column(table, j, known, wanted, coding, rng)
        yield table.copy()
        rounds = BETWEEN


def _strata(
    missing: Bool[np.ndarray, " N"], intervened: Bool[np.ndarray, " N"]
) -> Iterator[tuple[Int[np.ndarray, " known"], Int[np.ndarray, " wanted"]]]:
    for inside in (~intervened, intervened):
        wanted = np.flatnonzero(missing & inside)
        if len(wanted):
            yield np.flatnonzero(~missing & inside), wanted


def _require_known(name: str, known: int, wanted: int, was_set: bool) -> None:
    if known < FEWEST:
        rows = "rows where it was set from outside" if was_set else "rows"
        raise AuditError(
            (
                Finding(
                    "missing",
                    (name,),
                    f"column {show(name)} has {wanted} missing values and only {known} known ones "
                    f"in {rows}: too few to impute it; drop the column",
                ),
            )
        )


def _draw_column(
    table: Float64[np.ndarray, "N m"],
    j: int,
    known: Int[np.ndarray, " known"],
    wanted: Int[np.ndarray, " wanted"],
    coding: Coding,
    rng: np.random.Generator,
) -> Float64[np.ndarray, " wanted"]:
    """Values of a column for the rows that want them, from those where it is known."""
    x = _standard_predictors(table, j, known, coding)
    y = coding.features(table[known], np.array([j]))
    y = y - y.mean(axis=0)
    gram = x[known].T @ x[known] + RIDGE * np.eye(x.shape[1])
    root = np.linalg.inv(np.linalg.cholesky(gram))  # gram⁻¹ = rootᵀ root
    estimate = root.T @ (root @ (x[known].T @ y))
    left = ((y - x[known] @ estimate) ** 2).sum(axis=0)
    sd = np.sqrt(left / rng.chisquare(max(1.0, len(known) - x.shape[1] / 2)))
    drawn = estimate + sd * (root.T @ rng.standard_normal(estimate.shape))
    at, to = x[known] @ estimate, x[wanted] @ drawn
    if coding.discrete:
        size = JITTER * (at.std() + to.std()) + np.finfo(float).tiny
        at, to = (part + size * rng.standard_normal(part.shape) for part in (at, to))
    near = _nearest(at[:, 0], to[:, 0], rng) if at.shape[1] == 1 else _nearest_of_all(at, to, rng)
    return table[known, j][near]


def _standard_predictors(
    table: Float64[np.ndarray, "N m"], j: int, known: Int[np.ndarray, " known"], coding: Coding
) -> Float64[np.ndarray, "N k"]:
    """Other columns with mean 0 and variance 1 in the known rows; the most correlated of many."""
    others = np.delete(np.arange(table.shape[1]), j)
    x, bent = coding.features(table, others), coding.bent(others)
    centre, spread = x[known].mean(axis=0), x[known].std(axis=0)
    x = (x - centre) / np.where(spread > 0, spread, 1.0)
    if x.shape[1] > PREDICTORS:
        own = coding.features(table[known], np.array([j]))
        related = np.abs((own - own.mean(axis=0)).T @ x[known]).max(axis=0)
        kept = np.sort(np.argsort(-related, kind="stable")[:PREDICTORS])
        x, bent = x[:, kept], bent[kept]
    if len(known) < ROWS_PER_CURVE * x.shape[1]:
        return x
    curved = x[:, bent] / np.sqrt(1 + x[:, bent] ** 2)
    x = np.concatenate([x, curved, curved * curved], axis=1)
    return x - x[known].mean(axis=0)


def _nearest(
    predicted: Float64[np.ndarray, " known"],
    wanted: Float64[np.ndarray, " wanted"],
    rng: np.random.Generator,
) -> Int[np.ndarray, " wanted"]:
    """For each value one of the DONORS nearest predictions, at random."""
    order = np.argsort(predicted, kind="stable")
    sorted_values = predicted[order]
    place = np.searchsorted(sorted_values, wanted)
    window = place[:, None] + np.arange(-DONORS, DONORS)
    inside = (window >= 0) & (window < len(order))
    window = np.clip(window, 0, len(order) - 1)
    away = np.where(inside, np.abs(sorted_values[window] - wanted[:, None]), np.inf)
    ranked = np.argsort(away, axis=1, kind="stable")
    chosen = rng.integers(min(DONORS, len(order)), size=len(wanted))
    rows = np.arange(len(wanted))
    return order[window[rows, ranked[rows, chosen]]]


def _nearest_of_all(
    predicted: Float64[np.ndarray, "known q"],
    wanted: Float64[np.ndarray, "wanted q"],
    rng: np.random.Generator,
) -> Int[np.ndarray, " wanted"]:
    """The same where there are several predictions for each row."""
    # Few tables need it, and it takes a while to import.
    from scipy.spatial import KDTree

    donors = min(DONORS, len(predicted))
    near = np.asarray(KDTree(predicted).query(wanted, k=donors)[1]).reshape(len(wanted), donors)
    return near[np.arange(len(wanted)), rng.integers(donors, size=len(wanted))]
