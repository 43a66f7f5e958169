"""Independent edges, drawn with the derivative of their relaxation."""

from __future__ import annotations

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from svidag.kernels import noise
from svidag.orders.relaxation import straight_through

__all__ = ["draw_edges"]


def draw_edges(
    key: PRNGKeyArray, logits: Float[Array, "*batch m m"], temperature: float
) -> Float[Array, "*batch m m"]:
    """B ~ Bernoulli(σ(logits)), with the derivative of σ((logits + logistic noise)/temperature).

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> draw_edges(jax.random.key(1), jnp.full((1, 1), 9.0), 0.2).tolist()
    [[1.0]]
    """
    noisy = logits + noise.logistic(key, logits.shape)
    soft = jax.nn.sigmoid(noisy / temperature)
    return straight_through((noisy > 0).astype(soft.dtype), soft)
