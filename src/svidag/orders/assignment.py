"""Permutations as assignments: the best one by the Hungarian method, and how many there are.

The permanent of exp(T) is the normalising constant of q(P) ∝ exp⟨T, P⟩ over permutations. It has no
fast exact form; Bethe's approximation maximises

    ΣTγ − Σγ log γ + Σ(1 − γ) log(1 − γ)    over doubly stochastic γ,

a lower bound (Gurvits 2011) that is at most m/2 · log 2 too low (Anari and Rezaei 2019).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int
from scipy.optimize import linear_sum_assignment

SWEEPS = 20
LARGEST_SHARE = 1 - 1e-6  # of one entry in its row or column; beyond it float32 has no digits


def best_assignment(scores: Float[np.ndarray, "S m m"]) -> Int[np.ndarray, "S m"]:
    """The column of each row in the permutation of the largest sum of scores.

    Examples
    --------
    >>> best_assignment(np.array([[[0.9, 0.8], [0.8, 0.1]]])).tolist()
    [[1, 0]]
    """
    return np.stack([linear_sum_assignment(one, maximize=True)[1] for one in scores])


def log_bethe_permanent(T: Float[Array, "m m"], sweeps: int = SWEEPS) -> Float[Array, ""]:
    """log perm_B(exp T), by belief propagation between rows and columns.

    With messages A of the rows and B of the columns, as log odds,

        Σ_i log Σ_j exp(T + B)_ij + Σ_j log Σ_i exp(T + A)_ij − Σ_ij log(1 + exp(T + A + B)_ij).

    At their fixed point it is stationary in both, so that its derivative is γ = σ(T + A + B).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> round(float(log_bethe_permanent(jnp.array([[9.0, 0.0], [0.0, 9.0]]))), 3)
    18.0
    """
    rows, columns = jax.lax.stop_gradient(_messages(T, sweeps))
    by_row = logsumexp(T + columns, axis=1).sum()
    by_column = logsumexp(T + rows, axis=0).sum()
    return by_row + by_column - jax.nn.softplus(T + rows + columns).sum()


def _messages(T: Float[Array, "m m"], sweeps: int) -> tuple[Array, Array]:
    """The log odds that each row and each column gives to its entries, from the other entries."""

    def others(x, axis):
        """−log Σ exp of the other entries along an axis."""
        total = logsumexp(x, axis=axis, keepdims=True)
        return -total - jnp.log1p(-jnp.minimum(jnp.exp(x - total), LARGEST_SHARE))

    def sweep(columns, _):
        rows = others(T + columns, 1)
        return others(T + rows, 0), None

    columns, _ = jax.lax.scan(sweep, jnp.zeros_like(T), length=sweeps)
    return others(T + columns, 1), columns
