"""Independent edges given their logits, with the relaxation that gives them a derivative."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from svidag.kernels import noise
from svidag.orders.relaxation import straight_through

__all__ = ["draw_relaxed_edges", "harden", "relax_edges"]


def harden(
    noisy: Float[Array, "*shape"], temperature: float | Float[Array, ""]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """B = 1[γ + R > 0] and B̃ = σ((γ + R)/T), given γ + R.

    Examples
    --------
    >>> [float(edge) for edge in harden(jnp.array(0.0), 0.3)]
    [0.0, 0.5]
    """
    return (noisy > 0).astype(noisy.dtype), jax.nn.sigmoid(noisy / temperature)


def relax_edges(
    key: PRNGKeyArray, logits: Float[Array, "*batch m m"], temperature: float | Float[Array, ""]
) -> tuple[Float[Array, "*batch m m"], Float[Array, "*batch m m"]]:
    """Hard and soft edges share one logistic noise: B = 1[γ + R > 0], B̃ = σ((γ + R)/T).

    B_ij ~ Bernoulli(σ(γ_ij)); both have a zero diagonal (Eq. binary-concrete-sample).

    Examples
    --------
    >>> import jax.random as jr
    >>> hard, soft = relax_edges(jr.key(0), jnp.zeros((3, 3)), 0.3)
    >>> bool(((soft > 0.5) == (hard == 1)).all())
    True
    """
    noisy = logits + noise.logistic(key, logits.shape)
    itself = jnp.broadcast_to(jnp.eye(logits.shape[-1], dtype=bool), logits.shape)
    hard, soft = harden(noisy, temperature)
    zero = jnp.zeros((), logits.dtype)
    return jnp.where(itself, zero, hard), jnp.where(itself, zero, soft)


def draw_relaxed_edges(
    key: PRNGKeyArray, logits: Float[Array, "*batch m m"], temperature: float | Float[Array, ""]
) -> Float[Array, "*batch m m"]:
    """The hard edges of `relax_edges`, with the derivative of the soft ones.

    Examples
    --------
    >>> draw_relaxed_edges(jax.random.key(1), jnp.full((2, 2), 9.0), 0.2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return straight_through(*relax_edges(key, logits, temperature))
