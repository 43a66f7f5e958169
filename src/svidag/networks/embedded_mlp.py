"""Two networks that all nodes share, told apart by an embedding of each node.

    x̂_j = f_j(Σ_i A_ij ω_ij g(x_i, e_i), e_j)

g takes the row with all entries but x_i set to zero, f has an output for every node of which node j
uses its own. So the first layer of g needs one product for each entry and the last of f one output
for each node.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from svidag.networks.residual_mlp import ResidualMLP

__all__ = ["EmbeddedMLP", "LinearNodes"]

START, EMBEDDING_START = 0.1, 0.01
"""Standard deviations of weights ω and of embeddings at the start."""

LEAK = 0.01
"""Slope of the activation below zero."""


class LinearNodes(eqx.Module):
    """x̂ = x (A ⊙ ω): linear equations.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> LinearNodes(jnp.full((2, 2), 3.0))(jnp.array([[0.0, 1.0], [0.0, 0.0]]), jnp.ones((1, 2)))
    Array([[0., 3.]], dtype=float32)
    """

    weights: Float[Array, "*C m m"]

    @classmethod
    def start(cls, m: int, rng: np.random.Generator, copies: int) -> LinearNodes:
        """Small weights; the copies come first."""
        return cls(_normal(rng, (copies, m, m), START))

    def __call__(self, A: Float[Array, "m m"], x: Float[Array, "B m"]) -> Float[Array, "B m"]:
        """Predictions of every entry of every row."""
        return x @ (A * self.weights)


class EmbeddedMLP(eqx.Module):
    """Shared networks g and f, weights ω and embeddings e.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numpy as np
    >>> networks = EmbeddedMLP.start(3, (8,), np.random.default_rng(0), copies=2)
    >>> one = jax.tree.map(lambda leaf: leaf[0], networks)
    >>> one(jnp.zeros((3, 3)), jnp.ones((5, 3))).shape
    (5, 3)
    """

    weights: Float[Array, "*C m m"]
    embeddings: Float[Array, "*C m m"]
    inner: ResidualMLP
    outer: ResidualMLP

    @classmethod
    def start(
        cls, m: int, hidden: tuple[int, ...], rng: np.random.Generator, copies: int
    ) -> EmbeddedMLP:
        """Small weights and embeddings, networks 2m → hidden → m; the copies come first."""
        sizes = (2 * m, *hidden, m)
        return cls(
            _normal(rng, (copies, m, m), START),
            _normal(rng, (copies, m, m), EMBEDDING_START),
            ResidualMLP.uniform(sizes, rng, (copies,), LEAK),
            ResidualMLP.uniform(sizes, rng, (copies,), LEAK),
        )

    def __call__(self, A: Float[Array, "m m"], x: Float[Array, "B m"]) -> Float[Array, "B m"]:
        """Predictions of every entry of every row."""
        m, g, f = x.shape[1], self.inner, self.outer
        alone = x[:, :, None] * g.weights[0][None, :m]
        h = g.features(alone + self._of_embedding(g)[None])
        messages = h @ g.weights[-1]
        messages = messages + jnp.broadcast_to(g.biases[-1], messages.shape)
        summed = jnp.einsum("ij,bik->bjk", A * self.weights, messages)
        h = f.features(summed @ f.weights[0][:m] + self._of_embedding(f)[None])
        return jnp.einsum("bjh,hj->bj", h, f.weights[-1]) + f.biases[-1][None]

    def _of_embedding(self, network: ResidualMLP) -> Float[Array, "m h"]:
        """The embeddings' part of a first layer, with its bias."""
        return (
            self.embeddings @ network.weights[0][len(self.embeddings) :] + network.biases[0][None]
        )


def _normal(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> Array:
    return jax.device_put((scale * rng.standard_normal(shape)).astype(np.float32))
