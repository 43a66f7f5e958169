"""Tables with columns of all kinds from random equations, and tables that lose some of their cells.

A node without causes and a node with some are drawn alike, from a linear predictor η of what its
parents are worth: continuous η + ε; binary and categorical by logits; ordinal by cumulative
logits; count Poisson with a Gamma factor, so that counts vary more than Poisson's. A measurement
is worth its standardised value, a count that of log(1 + x), an ordinal level its standardised
rank, and every level of a category a number of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.special import expit, softmax

from svidag import datasets
from svidag.datasets import Example
from svidag.datasets.seeds import stream
from svidag.datasets.structural import draw_order

KINDS = ("continuous", "binary", "categorical", "ordinal", "count")
LEVELS = ("red", "green", "blue")
STAGES = (-1.5, 0.0, 1.5)
"""Thresholds between four ordinal levels, where the predictor is 0."""
STRENGTH = (0.6, 1.4)
"""Bounds of a slope for the standardised value of a cause; its sign is fair."""
DISPERSION = 2.0
"""Shape of the Gamma factor of a count."""

Column = Float[np.ndarray, " N"]


def mixed(
    *,
    m: int,
    edges: int,
    n: int,
    kinds: Sequence[str] = KINDS,
    missing: float = 0.0,
    lost: str = "random",
    seed: int,
    replicate: int,
) -> Example:
    """Random equations on a random DAG whose columns have these kinds, in turn and in random order.

    Examples
    --------
    >>> example = mixed(m=5, edges=5, n=4, seed=1, replicate=0)
    >>> sorted(map(str, example.data.dtypes))
    ['category', 'float64', 'int64', 'int64', 'int64']
    """
    unknown = set(kinds) - set(KINDS)
    if unknown or not kinds:
        raise ValueError(f"kinds must be among {', '.join(KINDS)}; got {', '.join(kinds)!r}")
    graph = datasets.synthetic(m=m, edges=edges, n=1, seed=seed)
    rng = stream(seed, "mixed")
    chosen = rng.permutation([kinds[j % len(kinds)] for j in range(m)])
    A = graph.truth.to_numpy()
    columns: dict[int, np.ndarray] = {}
    worth: dict[int, Column] = {}
    for j in draw_order(A.astype(np.uint8)):
        parents = np.flatnonzero(A[:, j])
        columns[j] = _DRAWS[chosen[j]](rng, [worth[int(i)] for i in parents], n)
        worth[j] = _worth(rng, chosen[j], columns[j])
    data = pd.DataFrame(
        {name: _series(chosen[j], columns[j]) for j, name in enumerate(graph.names)}
    )
    words = f"{m} columns of {len(set(chosen))} kinds, {edges} arrows, {n} rows"
    example = Example(data, graph.truth, None, words)
    return lose_cells(example, missing, lost, seed)


def lose_cells(example: Example, share: float, lost: str, seed: int) -> Example:
    """The same table without this share of its cells.

    ``lost="random"``: each cell by itself. ``"given"``: missing at random given what is known: the
    first column is complete, and rows in which it is above its median lose three times as many.
    ``"own"``: not at random: cells above the median of their column are lost three times as often
    (of a category, those with another level than its most frequent one).

    Examples
    --------
    >>> table = datasets.synthetic(m=3, edges=2, n=1000, seed=1)
    >>> round(float(lose_cells(table, 0.2, "own", seed=0).data.isna().mean().mean()), 1)
    0.2
    """
    if lost not in LOST:
        raise ValueError(f"lost must be one of {', '.join(LOST)}; got {lost!r}")
    if not 0 <= share <= 0.5:
        raise ValueError(f"missing must be a share from 0 to 0.5; got {share!r}")
    if share == 0:
        return example
    data = example.data
    if lost == "random":
        often = np.ones(data.shape, dtype=bool)
    elif lost == "given":
        often = np.repeat(_upper(data.iloc[:, 0])[:, None], data.shape[1], axis=1)
    else:
        often = np.column_stack([_upper(column) for _, column in data.items()])
    chance = np.where(often, 1.5, 0.5) * share
    chance /= chance.mean(axis=0) / share
    if lost == "given":
        chance[:, 0] = 0.0
    gone = stream(seed, "lost cells").random(data.shape) < chance
    return replace(example, data=data.mask(gone))


LOST = ("random", "given", "own")


def _upper(column: pd.Series) -> np.ndarray:
    if not pd.api.types.is_numeric_dtype(column):
        return (column != column.mode()[0]).to_numpy()
    upper = (column > column.median()).to_numpy()
    return upper if upper.any() else (column == column.max()).to_numpy()


def _series(kind: str, column: np.ndarray) -> pd.Series:
    if kind == "categorical":
        return pd.Series(pd.Categorical.from_codes(column, list(LEVELS)))
    return pd.Series(column)


def _slopes(rng: np.random.Generator, count: int) -> Float[np.ndarray, " k"]:
    return rng.uniform(*STRENGTH, count) * rng.choice([-1.0, 1.0], count)


def _predictor(rng: np.random.Generator, causes: list[Column], n: int) -> Column:
    if not causes:
        return np.zeros(n)
    return np.column_stack(causes) @ _slopes(rng, len(causes)) / np.sqrt(len(causes))


def _continuous(rng: np.random.Generator, causes: list[Column], n: int) -> Column:
    return _predictor(rng, causes, n) + rng.standard_normal(n)


def _binary(rng: np.random.Generator, causes: list[Column], n: int) -> Int[np.ndarray, " N"]:
    return (rng.random(n) < expit(2 * _predictor(rng, causes, n))).astype(np.int64)


def _categorical(rng: np.random.Generator, causes: list[Column], n: int) -> Int[np.ndarray, " N"]:
    logits = np.column_stack([2 * _predictor(rng, causes, n) for _ in LEVELS])
    bounds = softmax(logits, axis=1).cumsum(axis=1)
    return (rng.random(n)[:, None] > bounds[:, :-1]).sum(axis=1)


def _ordinal(rng: np.random.Generator, causes: list[Column], n: int) -> Int[np.ndarray, " N"]:
    latent = 2 * _predictor(rng, causes, n) + rng.logistic(size=n)
    return np.digitize(latent, STAGES) + 1


def _count(rng: np.random.Generator, causes: list[Column], n: int) -> Int[np.ndarray, " N"]:
    rate = np.exp(2.0 + 0.7 * np.clip(_predictor(rng, causes, n), -4, 4))
    return rng.poisson(rate * rng.gamma(DISPERSION, 1 / DISPERSION, n))


_DRAWS: Mapping[str, Callable[..., np.ndarray]] = MappingProxyType(
    {
        "continuous": _continuous,
        "binary": _binary,
        "categorical": _categorical,
        "ordinal": _ordinal,
        "count": _count,
    }
)


def _worth(rng: np.random.Generator, kind: str, column: np.ndarray) -> Column:
    if kind == "categorical":
        column = rng.permutation([-1.2, 0.0, 1.2])[column]
    elif kind == "count":
        column = np.log1p(column)
    return (column - column.mean()) / max(float(column.std()), 1e-9)
