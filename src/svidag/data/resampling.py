"""Resampled tables: rows, or whole groups of rows, drawn with replacement within strata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from svidag.data.columns import closest, show
from svidag.data.dataset import Dataset
from svidag.data.files import read_table

TRIES = 100
"""Resamples that may leave a column constant before that is an error."""


def split_groups(data: Any, groups: Any, interventions: Any) -> tuple[Any, np.ndarray | None]:
    """The data without their column of groups, and a whole number for each row's group.

    `groups` is the name of a column, whose values may be text, or a label for each row.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "family": ["x", "y", "x"]})
    >>> kept, group = split_groups(table, "family", None)
    >>> list(kept), group.tolist()
    (['a'], [0, 1, 0])
    """
    if groups is None:
        return data, None
    if not isinstance(groups, str):
        labels = np.asarray(groups)
        if labels.ndim != 1:
            raise ValueError(f"groups must name a column or label each row; got {show(groups)}")
        return data, _codes(pd.Series(labels))
    frame = _frame(data, groups, interventions)
    if groups not in frame.columns:
        raise ValueError(
            f"groups is {show(groups)}, which is not a column{closest(groups, list(frame.columns))}"
        )
    codes = _codes(pd.Series(frame[groups]))
    if not isinstance(data, Dataset):
        return frame.drop(columns=groups), codes
    kept = [j for j, name in enumerate(data.names) if name != groups]
    return data.columns(kept), codes


def _frame(data: Any, groups: str, interventions: Any) -> pd.DataFrame:
    if isinstance(data, Dataset):
        return data.to_frame()
    if isinstance(data, pd.DataFrame):
        return data
    if callable(getattr(data, "to_pandas", None)):
        return data.to_pandas()
    if isinstance(data, np.ndarray | list):
        raise ValueError("groups names a column, and arrays have no names: label each row instead")
    frame = read_table(data, interventions if isinstance(interventions, str) else None)
    if groups in frame.columns:  # text where the file has text
        frame[groups] = read_table(data, groups)[groups]
    return frame


def _codes(labels: pd.Series) -> np.ndarray:
    if labels.isna().any():
        raise ValueError(f"groups has {int(labels.isna().sum())} rows without a label")
    return pd.factorize(labels)[0]


def resample(
    intervened: Bool[np.ndarray, "N m"],
    groups: Int[np.ndarray, " N"] | None,
    rows: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " rows"]:
    """About `rows` rows with replacement, in whole groups, stratified by intervention.

    A stratum is all groups whose rows have the same intervention targets; each keeps its share of
    the rows. Without groups every row is its own, and there are exactly as many rows as asked for.

    Examples
    --------
    >>> mask = np.array([[False]] * 6 + [[True]] * 3)
    >>> drawn = resample(mask, None, 6, np.random.default_rng(0))
    >>> len(drawn), int(mask[drawn].sum())
    (6, 2)
    """
    n = len(intervened)
    groups = np.arange(n) if groups is None else groups
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    strata = list(_strata(intervened, members))
    quotas = apportion(np.array([sum(len(members[g]) for g in s) for s in strata]), rows)
    drawn: list[np.ndarray] = []
    for stratum, quota in zip(strata, quotas, strict=True):
        drawn += _whole_groups([members[g] for g in stratum], int(quota), rng)
    return np.concatenate(drawn)


def apportion(sizes: Int[np.ndarray, " strata"], rows: int) -> Int[np.ndarray, " strata"]:
    """Shares of `rows` in proportion to sizes, by largest remainders.

    Examples
    --------
    >>> apportion(np.array([600, 300, 100]), 16).tolist()
    [9, 5, 2]
    """
    exact = rows * sizes / sizes.sum()
    shares = np.floor(exact).astype(int)
    rest = np.argsort(shares - exact, kind="stable")[: rows - shares.sum()]
    shares[rest] += 1
    return shares


def _strata(intervened: Bool[np.ndarray, "N m"], members: list[np.ndarray]) -> Iterator[list[int]]:
    packed = np.packbits(intervened, axis=1)
    _, pattern = np.unique(packed, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    kinds: dict[tuple[int, ...], list[int]] = {}
    for g, rows in enumerate(members):
        kind = (int(pattern[rows[0]]),) if len(rows) == 1 else tuple(np.unique(pattern[rows]))
        kinds.setdefault(kind, []).append(g)
    yield from (kinds[kind] for kind in sorted(kinds))


def _whole_groups(
    members: list[np.ndarray], quota: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Groups with replacement, until as near to the quota of rows as they come."""
    drawn: list[np.ndarray] = []
    left = quota
    while left > 0:
        chosen = members[int(rng.integers(len(members)))]
        if drawn and len(chosen) > 2 * left:
            break
        drawn.append(chosen)
        left -= len(chosen)
    return drawn


def usable_resample(
    data: Dataset, groups: Int[np.ndarray, " N"] | None, rows: int, rng: np.random.Generator
) -> Int[np.ndarray, " rows"]:
    """A resample in which no column that varies has become constant.

    Raises
    ------
    ValueError
        If a hundred resamples all leave a column constant.
    """
    spread = np.zeros(data.m)
    for _ in range(TRIES):
        drawn = resample(data.intervened, groups, rows, rng)
        spread = np.ptp(data.values[drawn], axis=0)
        if (spread > 0).all():
            return drawn
    name = data.names[int(spread.argmin())]
    raise ValueError(
        f"resamples of {rows} rows leave the column {show(name)} constant; choose a larger bag_rows"
    )
