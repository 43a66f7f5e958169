"""Environments: batch, laboratory, experiment. Nothing causes them, and they are no nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from svidag.data.columns import show
from svidag.data.dataset import Dataset
from svidag.data.kinds import Kind
from svidag.data.resampling import take_column
from svidag.data.scaling import read_only

FEWEST = 10
"""Rows that every environment must have."""


@dataclass(frozen=True, eq=False)
class Environments:
    """The environment of every row.

    Attributes
    ----------
    columns
        The columns that name it.
    levels
        Its names, one for each environment that occurs.
    labels
        For each row, the number of its environment.

    Examples
    --------
    >>> found = Environments(("batch",), ("a", "b"), np.array([0, 1, 1, 0]))
    >>> found.contrasts()[0].round(3).tolist()
    [[-1.0], [1.0]]
    """

    columns: tuple[str, ...]
    levels: tuple[str, ...]
    labels: Int[np.ndarray, " N"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", read_only(self.labels, np.int64))

    def rows(self, rows: Int[np.ndarray, " n"]) -> Environments:
        """The environments of some rows, without those that do not occur."""
        present, labels = np.unique(self.labels[rows], return_inverse=True)
        return Environments(self.columns, tuple(self.levels[k] for k in present), labels)

    def beside(self, data: Dataset) -> Dataset:
        """The table with the environment as a further column, a binary or categorical one."""
        kind = Kind.BINARY if len(self.levels) == 2 else Kind.CATEGORICAL
        return Dataset(
            (*data.names, "environment\0"),
            np.column_stack([data.values, self.labels]),
            np.column_stack([data.intervened, np.zeros(data.n_rows, dtype=bool)]),
            (*data.transforms, None),
            (*data.kinds, kind),
            (*data.levels, self.levels),
        )

    def contrasts(self) -> tuple[Float[np.ndarray, "E d"], Float[np.ndarray, "N d"]]:
        """E − 1 columns that tell environments apart, by environment and by row.

        They have mean 0 and variance 1 over the rows and are uncorrelated: with p the shares of
        the environments, an orthonormal basis of what is orthogonal to √p, divided by √p.
        """
        share = np.bincount(self.labels, minlength=len(self.levels)) / len(self.labels)
        root = np.sqrt(share)
        basis = np.linalg.svd(np.eye(len(root)) - np.outer(root, root))[0][:, : len(root) - 1]
        columns = basis / root[:, None]
        columns = columns * np.where(columns[-1] < 0, -1.0, 1.0)  # signs by convention
        return columns, columns[self.labels]


def split_environments(
    data: Any, environments: Any, interventions: Any
) -> tuple[Any, Environments | None]:
    """The data without the columns of environments, and the environment of each row.

    `environments` is the name of a column, several of them (every combination that occurs is an
    environment), or a label for each row.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [1.0] * 20, "batch": ["x", "y"] * 10})
    >>> kept, found = split_environments(table, "batch", None)
    >>> list(kept), found.levels
    (['a'], ('x', 'y'))
    """
    if environments is None:
        return data, None
    columns = [environments] if isinstance(environments, str) else environments
    if _names(columns):
        parts = []
        for name in columns:
            data, labels = take_column(data, name, interventions, "environments")
            parts.append(labels.astype(str))
        joined = parts[0]
        for other in parts[1:]:
            joined = joined + ", " + other
        return data, _environments(joined, tuple(columns))
    labels = np.asarray(environments)
    if labels.ndim != 1:
        raise ValueError(
            "environments must name one or more columns or label each row; got "
            f"{show(environments)}"
        )
    return data, _environments(pd.Series(labels).astype(str), ())


def _names(columns: Any) -> bool:
    few = isinstance(columns, Sequence) and len(columns) <= FEWEST
    return few and len(columns) > 0 and all(isinstance(name, str) for name in columns)


def _environments(labels: pd.Series, columns: tuple[str, ...]) -> Environments:
    codes, levels = pd.factorize(labels, sort=True)
    found = Environments(columns, tuple(map(str, levels)), codes)
    counts = np.bincount(codes)
    if len(levels) < 2:
        raise ValueError(f"environments has one value only, {show(str(levels[0]))}; leave it out")
    if counts.min() < FEWEST:
        raise ValueError(
            f"environments has {len(levels)} values, and {show(str(levels[counts.argmin()]))} only "
            f"{counts.min()} rows; expected at least {FEWEST} rows in each: join or drop some"
        )
    return found
