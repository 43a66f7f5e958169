"""Columns of any kind as numbers, for the regressions that missing cells are drawn by.

A continuous column stands for itself, a count enters as log(1 + x), a binary or ordinal column by
its code, and a categorical one by an indicator of each level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int

from svidag.data.kinds import Kind


@dataclass(frozen=True)
class Coding:
    """Kinds of the columns of a table, and how many levels each has.

    Attributes
    ----------
    kinds
        The kind of every column.
    sizes
        The number of levels of a discrete column, 0 for others.

    Examples
    --------
    >>> coding = Coding((Kind.CATEGORICAL, Kind.COUNT), (3, 0))
    >>> coding.features(np.array([[2.0, 0.0]]), np.arange(2)).tolist()
    [[0.0, 0.0, 1.0, 0.0]]
    """

    kinds: tuple[Kind, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of_numbers(cls, columns: int) -> Coding:
        """Columns that are all continuous."""
        return cls((Kind.CONTINUOUS,) * columns, (0,) * columns)

    def and_numbers(self, columns: int) -> Coding:
        """The same with further continuous columns."""
        more = Coding.of_numbers(columns)
        return Coding(self.kinds + more.kinds, self.sizes + more.sizes)

    @property
    def discrete(self) -> bool:
        """Whether any column has levels."""
        return any(self.sizes)

    def features(
        self, table: Float64[np.ndarray, "N m"], columns: Int[np.ndarray, " l"]
    ) -> Float64[np.ndarray, "N k"]:
        """The numbers that stand for some columns, one after another."""
        return np.concatenate(
            [np.empty((len(table), 0)), *(self._of(table[:, j], int(j)) for j in columns)], axis=1
        )

    def bent(self, columns: Int[np.ndarray, " l"]) -> Bool[np.ndarray, " k"]:
        """Which of these numbers may have a curved effect: all but indicators."""
        return np.concatenate(
            [np.zeros(0, bool), *(np.full(self._width(int(j)), self._curves(int(j)))
                                  for j in columns)]
        )  # fmt: skip

    def _curves(self, j: int) -> bool:
        return self.kinds[j] not in (Kind.BINARY, Kind.CATEGORICAL)

    def _width(self, j: int) -> int:
        return self.sizes[j] if self.kinds[j] is Kind.CATEGORICAL else 1

    def _of(self, column: Float64[np.ndarray, " N"], j: int) -> Float64[np.ndarray, "N k"]:
        if self.kinds[j] is Kind.CATEGORICAL:
            return (column[:, None] == np.arange(self.sizes[j])).astype(np.float64)
        return np.log1p(column[:, None]) if self.kinds[j] is Kind.COUNT else column[:, None]
