"""Features of causes of any kind, for regressions.

A continuous cause is its own feature, a count enters as log(1 + x). A discrete cause with K levels
has contrasts between them: one for a binary cause, K − 1 for a categorical one, and for an ordinal
one its score and K − 2 further contrasts. Contrasts are orthonormal as functions of the level, so
that no level is treated otherwise than the rest, centred, and scaled to unit mean variance in the
table. A regression takes either the *plain* features, where ordinal causes have only their scores,
or all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.data import Dataset, Kind
from svidag.data.scaling import centre_and_scale


@dataclass(frozen=True, eq=False)
class MixedFeatures:
    """The features of every column of a table, and of further rows.

    Attributes
    ----------
    data
        The table, in the scale of the fit.
    rows
        Rows whose features are wanted; contrasts are scaled by the whole table in any case.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": np.arange(40.0), "g": list("abca") * 10, "s": [1, 2, 3, 4] * 10})
    >>> features = MixedFeatures(Dataset.from_any(frame))
    >>> features.owner.tolist(), features.plain.tolist()
    ([0, 1, 1, 2, 2, 2], [True, True, True, True, False, False])
    """

    data: Dataset
    rows: Bool[np.ndarray, " N"] | None = None

    @cached_property
    def owner(self) -> Int[np.ndarray, " E"]:
        """The column that each feature belongs to."""
        widths = [self._width(j) for j in range(self.data.m)]
        return np.repeat(np.arange(self.data.m), widths)

    @cached_property
    def plain(self) -> Bool[np.ndarray, " E"]:
        """Features that every regression has: all but the further contrasts of ordinal causes."""
        first = np.append(True, np.diff(self.owner) > 0)
        ordinal = np.array([kind is Kind.ORDINAL for kind in self.data.kinds])
        return first | ~ordinal[self.owner]

    @cached_property
    def values(self) -> Float[np.ndarray, "N E"]:
        """The features of the table, or of the chosen rows."""
        rows = self.data.values if self.rows is None else self.data.values[self.rows]
        return self.of(rows, np.arange(self.data.m))

    def of(
        self, rows: Float[np.ndarray, "R m"], columns: Int[np.ndarray, " l"]
    ) -> Float[np.ndarray, "R F"]:
        """Features of some columns of rows in the scale of the fit, one column after another."""
        return np.concatenate(
            [np.empty((len(rows), 0)), *(self._of_column(int(j), rows[:, j]) for j in columns)],
            axis=1,
        )

    def members(self, parents: Int[np.ndarray, " l"], *, full: bool) -> Int[np.ndarray, " F"]:
        """Places of the features of these columns: all of them, or the plain ones."""
        chosen = np.zeros(self.data.m, dtype=bool)
        chosen[parents] = True
        wanted = chosen[self.owner]
        return np.flatnonzero(wanted if full else wanted & self.plain)

    @cached_property
    def first_output(self) -> Int[np.ndarray, " m"]:
        """The first of the features that stand for each column where it is explained."""
        return np.searchsorted(self.owner, np.arange(self.data.m))

    @cached_property
    def output_count(self) -> Int[np.ndarray, " m"]:
        """How many features stand for each column where it is explained: one, or all contrasts."""
        return np.bincount(self.owner[self.plain], minlength=self.data.m)

    def outputs(self, j: int) -> Int[np.ndarray, " k"]:
        """Features that stand for column j where it is explained: its score, or all contrasts."""
        return self.first_output[j] + np.arange(self.output_count[j])

    def count_scale(self, j: int) -> tuple[float, float]:
        """Mean and standard deviation of log(1 + x) of a count."""
        return self._moments[j]

    def _width(self, j: int) -> int:
        return max(1, len(self.data.levels[j]) - 1)

    def _of_column(self, j: int, column: Float[np.ndarray, " R"]) -> Float[np.ndarray, "R f"]:
        if self.data.levels[j]:
            return self._contrasts[j][column.astype(np.int64)]
        if self.data.kinds[j] is Kind.COUNT:
            centre, scale = self._moments[j]
            return (np.log1p(column[:, None]) - centre) / scale
        return column[:, None]

    @cached_property
    def _moments(self) -> dict[int, tuple[float, float]]:
        counts = [j for j, kind in enumerate(self.data.kinds) if kind is Kind.COUNT]
        return {j: centre_and_scale(np.log1p(self._free(j))) for j in counts}

    @cached_property
    def _contrasts(self) -> dict[int, Float[np.ndarray, "K f"]]:
        discrete = np.flatnonzero(self.data.discrete)
        return {int(j): self._contrasts_of(int(j)) for j in discrete}

    def _contrasts_of(self, j: int) -> Float[np.ndarray, "K f"]:
        levels = self.data.levels[j]
        size = len(levels)
        share = np.bincount(self._free(j).astype(np.int64), minlength=size) / len(self._free(j))
        numeric = not any(isinstance(level, str) for level in levels)
        score = np.array(levels, dtype=float) if numeric else np.arange(float(size))
        first = [np.ones(size), *([score] if self.data.kinds[j] is Kind.ORDINAL else [])]
        basis = np.linalg.qr(np.column_stack([*first, np.eye(size)]))[0]
        parts = [basis[:, 1:size]]
        if self.data.kinds[j] is Kind.ORDINAL:
            parts = [basis[:, 1:2], basis[:, 2:size]]
        return np.concatenate([_standard(part, share) for part in parts], axis=1)

    def _free(self, j: int) -> Float[np.ndarray, " n"]:
        """The values that were not set from outside, or all if there are none."""
        free = ~self.data.intervened[:, j]
        return self.data.values[free if free.any() else slice(None), j]


def _standard(
    contrasts: Float[np.ndarray, "K f"], share: Float[np.ndarray, " K"]
) -> Float[np.ndarray, "K f"]:
    """Centred and with unit mean variance, where a row has each level with this share."""
    away = contrasts - share @ contrasts
    variance = float((share @ away**2).mean()) if away.size else 0.0
    return away / np.sqrt(variance) if variance > 0 else away
