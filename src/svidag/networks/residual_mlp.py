"""Networks with layer normalisation and residual connections."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

__all__ = ["ResidualMLP", "normalise"]

SMALLEST = 1e-5
"""Added to the variance by which a layer is normalised."""


def normalise(h: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
    """The last axis with mean zero and variance one.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> normalise(jnp.array([1.0, 3.0])).round(3).tolist()
    [-1.0, 1.0]
    """
    centred = h - h.mean(axis=-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(axis=-1, keepdims=True) + SMALLEST)


class ResidualMLP(eqx.Module):
    """Layers, each but the first after a normalisation; a layer of equal widths adds its input.

    `slope` is that of the activation below zero. Gains and offsets belong to the normalisations.

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp
    >>> network = ResidualMLP.uniform((3, 8, 8, 2), np.random.default_rng(0))
    >>> network(jnp.ones((5, 3))).shape
    (5, 2)
    """

    weights: tuple[Float[Array, "*C _ _"], ...]
    biases: tuple[Float[Array, "*C _"], ...]
    gains: tuple[Float[Array, "*C _"], ...]
    offsets: tuple[Float[Array, "*C _"], ...]
    slope: float = eqx.field(static=True, default=0.0)

    @classmethod
    def uniform(
        cls,
        sizes: Sequence[int],
        rng: np.random.Generator,
        copies: tuple[int, ...] = (),
        slope: float = 0.0,
    ) -> ResidualMLP:
        """Weights and biases from U(±1/√fan-in); so many copies come first."""
        shapes = list(pairwise(sizes))

        def draw(fan_in: int, *shape: int) -> np.ndarray:
            return (rng.uniform(-1, 1, (*copies, *shape)) / np.sqrt(fan_in)).astype(np.float32)

        weights, biases, gains, offsets = (
            tuple(draw(inner, inner, outer) for inner, outer in shapes),
            tuple(draw(inner, outer) for inner, outer in shapes),
            tuple(np.ones((*copies, inner), np.float32) for inner, _ in shapes[1:]),
            tuple(np.zeros((*copies, inner), np.float32) for inner, _ in shapes[1:]),
        )
        return cls(*jax.device_put((weights, biases, gains, offsets)), slope=slope)

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch k"]:
        """The outputs; copies must be mapped over."""
        first = x @ self.weights[0]
        h = self.features(first + jnp.broadcast_to(self.biases[0], first.shape))
        y = h @ self.weights[-1]
        return y + jnp.broadcast_to(self.biases[-1], y.shape)

    def features(self, first: Float[Array, "*batch h"]) -> Float[Array, "*batch g"]:
        """What enters the last layer, given what leaves the first before its activation."""
        h = jax.nn.leaky_relu(first, self.slope)
        inner = zip(self.weights[1:-1], self.biases[1:-1], strict=True)
        for at, (weight, bias) in enumerate(inner):
            y = self._normalised(h, at) @ weight
            y = jax.nn.leaky_relu(y + jnp.broadcast_to(bias, y.shape), self.slope)
            h = h + y if h.shape == y.shape else y
        return self._normalised(h, len(self.gains) - 1)

    def _normalised(self, h: Array, at: int) -> Array:
        gain, offset = (jnp.broadcast_to(x[at], h.shape) for x in (self.gains, self.offsets))
        return gain * normalise(h) + offset
