"""Second moments of a table, which are all that linear Gaussian mechanisms need to know of it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

__all__ = ["quadratic_forms", "second_moments"]


def second_moments(
    values: Float[np.ndarray, "N m"], observed: Bool[np.ndarray, "N m"]
) -> Float[np.ndarray, "g m m"]:
    """Σ x xᵀ over the rows that count for each variable; one matrix where all rows count for all.

    Examples
    --------
    >>> second_moments(np.ones((3, 2)), np.ones((3, 2), dtype=bool)).tolist()
    [[[3.0, 3.0], [3.0, 3.0]]]
    """
    if observed.all():
        return (values.T @ values)[None]
    return np.stack([values[rows].T @ values[rows] for rows in observed.T])


def quadratic_forms(
    columns: Float[Array, "*S m m"], moments: Float[Array, "g m m"]
) -> Float[Array, "*S m"]:
    """c_jᵀ G_j c_j for every column c_j, with one matrix G for all of them or one for each.

    Examples
    --------
    >>> quadratic_forms(jnp.eye(2), jnp.array([[[2.0, 1.0], [1.0, 3.0]]])).tolist()
    [2.0, 3.0]
    """
    if len(moments) == 1:
        return jnp.einsum("...ij,ik,...kj->...j", columns, moments[0], columns)
    return jnp.einsum("...ij,jik,...kj->...j", columns, moments, columns)
