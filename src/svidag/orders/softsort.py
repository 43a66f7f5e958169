"""Random orders with a derivative: Gumbel scores sorted, with SoftSort for the slope.

Scores s = log softmax(ψ) + Gumbel noise put the variables in the order of a Plackett–Luce draw: the
first has the highest score. SoftSort (Prillo and Eisenschlos, 2020) relaxes the permutation that
sorts them,

    P̂[k, j] = softmax_j(−|s_(k) − s_j| / τ),    s_(1) ≥ s_(2) ≥ …,

whose rows are largest where the hard permutation has its ones, and which tends to it as τ → 0.
Required arrows are met by raising scores: a cause gets at least the score of what follows from it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from svidag.kernels import noise
from svidag.orders.relaxation import straight_through

__all__ = ["gumbel_scores", "precedence", "raise_causes", "soft_sort", "sorted_mask"]


def gumbel_scores(key: PRNGKeyArray, psi: Float[Array, " m"]) -> Float[Array, " m"]:
    """log softmax(ψ) + Gumbel noise: sorted, a draw from the Plackett–Luce distribution.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> gumbel_scores(jax.random.key(0), jnp.zeros(3)).shape
    (3,)
    """
    return jax.nn.log_softmax(psi) + noise.gumbel(key, psi.shape)


def soft_sort(scores: Float[Array, " m"], tau: float) -> Float[Array, "m m"]:
    """P̂[k, j]: how far variable j is the one at place k, highest score first.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> soft_sort(jnp.array([0.0, 2.0]), tau=0.1).round(2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    ranked = -jnp.sort(-scores)
    return jax.nn.softmax(-jnp.abs(ranked[:, None] - scores[None, :]) / tau, axis=1)


def sorted_mask(scores: Float[Array, " m"], tau: float) -> Float[Array, "m m"]:
    """1[s_i > s_j] = Pᵀ U P with the derivative through SoftSort; U is strictly upper triangular.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> sorted_mask(jnp.array([0.0, 2.0]), tau=1.0).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    hard = jax.nn.one_hot(jnp.argsort(-scores), len(scores), dtype=scores.dtype)
    P = straight_through(hard, soft_sort(scores, tau))
    upper = jnp.tri(len(scores), k=-1, dtype=scores.dtype).T
    return P.T @ upper @ P


def precedence(required: Bool[np.ndarray, "m m"], gap: float) -> Float[np.ndarray, "m m"]:
    """By how much i must stay above j: `gap` for each arrow of the longest required path.

    −∞ where nothing is required, 0 on the diagonal.

    Examples
    --------
    >>> required = np.array([[False, True, True], [False, False, True], [False] * 3])
    >>> precedence(required, 1.0)[0].tolist()
    [0.0, 1.0, 2.0]
    """
    m = len(required)
    longest = np.where(np.eye(m, dtype=bool), 0.0, -np.inf)
    arrow = np.where(required, gap, -np.inf)
    for _ in range(m - 1):
        longest = np.maximum(longest, (arrow[:, :, None] + longest[None]).max(axis=1))
    return longest.astype(np.float32)


def raise_causes(
    scores: Float[Array, "*batch m"], above: Float[Array, "m m"]
) -> Float[Array, "*batch m"]:
    """max_j (s_j + above_ij): scores in which every required cause comes before its effects.

    Where nothing is required, and where the order is right by more than the gap, nothing changes.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> above = precedence(np.array([[False, True], [False, False]]), 0.5)
    >>> raise_causes(jnp.array([1.0, 2.0]), jnp.asarray(above)).tolist()
    [2.5, 2.0]
    """
    raised = jnp.broadcast_to(above, (*scores.shape, scores.shape[-1])) + scores[..., None, :]
    return raised.max(axis=-1)
