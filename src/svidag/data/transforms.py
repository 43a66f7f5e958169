"""Transforms of single columns, by name."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd
from jaxtyping import Float64
from scipy.special import ndtri

from svidag.data.columns import closest, listing, show

Column = Float64[np.ndarray, " N"]


def log(column: Column, name: str) -> Column:
    """Return the natural logarithm; each value must be greater than 0."""
    bad = column <= 0
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"transforms: 'log' needs values above 0; column {show(name)} has {column[row]:g} "
            f"in row {row} (counting from 0)"
        )
    return np.log(column)


def rank_gaussian(column: Column, name: str) -> Column:
    """Return the normal quantile of each value's rank, Φ⁻¹((rank − ½) / N), ties averaged.

    The ranks are over all rows, so equal values stay equal. Missing and infinite entries keep
    their value for the audit to find.
    """
    finite = np.isfinite(column)
    result = column.copy()
    ranks = pd.Series(column[finite]).rank().to_numpy()
    result[finite] = ndtri((ranks - 0.5) / max(finite.sum(), 1))
    return result


TRANSFORMS: Mapping[str, Callable[[Column, str], Column]] = MappingProxyType(
    {"log": log, "rank-gaussian": rank_gaussian}
)


def resolve(
    transforms: str | Mapping[str, str | None] | None, names: Sequence[str]
) -> tuple[str | None, ...]:
    """Return one transform name, or None, for each column."""
    if transforms is None or isinstance(transforms, str):
        transforms = dict.fromkeys(names, transforms)
    for name, transform in transforms.items():
        if name not in names:
            raise ValueError(
                f"transforms names {show(name)}, which is not a column{closest(str(name), names)}"
            )
        if transform is not None and transform not in TRANSFORMS:
            raise ValueError(
                f"transforms has {show(transform)} for column {show(name)}; "
                f"expected {listing(list(TRANSFORMS))}"
            )
    return tuple(transforms.get(name) for name in names)


def transform_columns(
    values: Float64[np.ndarray, "N m"],
    transforms: Sequence[str | None],
    names: Sequence[str],
) -> Float64[np.ndarray, "N m"]:
    """Return the table with each column transformed as named."""
    result = values.copy()
    for j, transform in enumerate(transforms):
        if transform is not None:
            result[:, j] = TRANSFORMS[transform](values[:, j], names[j])
    return result
