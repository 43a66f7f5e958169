"""One small network for each node, all stacked: x̂_j = f_j(A[:, j] ⊙ x; θ_j).

The nodes are the leading axis of every array, so that a pass over all of them is a few matrix
products. A mask on the inputs is the same as a mask on the first weights, which needs no copy of
the rows for each node.
"""

from __future__ import annotations

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

__all__ = ["NodeMLP"]


class NodeMLP(eqx.Module):
    """ReLU networks m → hidden → 1 for all nodes; layer l of node j is `weights[l][j]`.

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp
    >>> networks = NodeMLP.uniform(3, (8,), np.random.default_rng(0))
    >>> networks(jnp.zeros((3, 3)), jnp.ones((5, 3))).shape
    (5, 3)
    """

    weights: tuple[Float[Array, "*K m _ _"], ...]
    biases: tuple[Float[Array, "*K m _"], ...]

    @classmethod
    def uniform(cls, m: int, hidden: tuple[int, ...], rng: np.random.Generator) -> NodeMLP:
        """Weights and biases from U(±1/√fan-in), the usual start of a linear layer in PyTorch."""
        shapes = list(pairwise((m, *hidden, 1)))

        def draw(fan_in: int, *shape: int) -> Array:
            drawn = rng.uniform(-1, 1, (m, *shape)) / np.sqrt(fan_in)
            return jax.device_put(drawn.astype(np.float32))

        weights = tuple(draw(inner, inner, outer) for inner, outer in shapes)
        return cls(weights, tuple(draw(inner, outer) for inner, outer in shapes))

    @classmethod
    def normal(
        cls, m: int, hidden: tuple[int, ...], rng: np.random.Generator, copies: int
    ) -> NodeMLP:
        """Standard normal weights and biases, so many times over; the copies come first."""
        shapes = list(pairwise((m, *hidden, 1)))

        def draw(*shape: int) -> Array:
            return jax.device_put(rng.standard_normal((copies, m, *shape), np.float32))

        return cls(tuple(draw(*shape) for shape in shapes), tuple(draw(o) for _, o in shapes))

    def __call__(self, A: Float[Array, "m m"], x: Float[Array, "B m"]) -> Float[Array, "B m"]:
        """f_j(A[:, j] ⊙ x) for every row and node; A may be soft."""
        first, *rest = zip(self.weights, self.biases, strict=True)
        masked = first[0] * A.T[:, :, None]
        # Rows come last: the layers after the first are narrow, and rows fill the vector units.
        h = jnp.einsum("jih,bi->jhb", masked, x) + first[1][:, :, None]
        for weight, bias in rest:
            h = jnp.einsum("jhg,jhb->jgb", weight, jax.nn.relu(h)) + bias[:, :, None]
        return h[:, 0].T
