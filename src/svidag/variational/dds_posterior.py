"""Graphs from independent draws of an order and of edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from svidag.kernels import noise
from svidag.orders.relaxation import hard_mask
from svidag.orders.softsort import gumbel_scores, raise_causes
from svidag.posterior import GraphDistribution
from svidag.prior.jax_edges import JaxEdgePrior
from svidag.run import streams
from svidag.run.loop import compiled
from svidag.run.streams import Stream

CHUNK = 500  # graphs drawn per compiled call
AVERAGED = 4000  # orders behind the edge probabilities


@dataclass(frozen=True, eq=False)
class SortedGraphs(GraphDistribution):
    """A = b ⊙ M(order): a Plackett–Luce order with log weights ψ, edges with logits e.

    Attributes
    ----------
    psi, logits
        ψ and e.
    above
        By how much scores of required causes stay above those of their effects.
    prior
        Hard knowledge.
    """

    psi: Float[Array, " m"]
    logits: Float[Array, "m m"]
    above: Float[Array, "m m"]
    prior: JaxEdgePrior

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws."""
        return np.concatenate([np.asarray(graphs) for graphs, _ in self._chunks(n, seed)])[:n]

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """The mean of σ(e) ⊙ M over draws of the order, which spares the noise of the edges."""
        means = [np.asarray(expected, float) for _, expected in self._chunks(AVERAGED, 0)]
        return np.mean(means, axis=0)

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> None:
        """Not available: a graph's probability sums over all orders that allow it."""

    def _chunks(self, n: int, seed: int) -> Iterator[tuple[Array, Array]]:
        for chunk in range(-(-n // CHUNK)):
            key = streams.key(seed, Stream.GRAPH_DRAWS, chunk)
            yield _draw(self.psi, self.logits, self.above, self.prior, key)


@compiled
def _draw(
    psi: Array, logits: Array, above: Array, prior: JaxEdgePrior, key: Array
) -> tuple[UInt8[Array, "S m m"], Float[Array, "m m"]]:
    keys = noise.split(key, 2)
    scores = jax.vmap(lambda key: gumbel_scores(key, psi))(noise.split(keys[0], CHUNK))
    mask = hard_mask(raise_causes(scores, above))
    each = jnp.broadcast_to(logits, mask.shape)
    present = (each + noise.logistic(keys[1], mask.shape) > 0).astype(mask.dtype)
    expected = prior.graph(jax.nn.sigmoid(each), mask).mean(axis=0)
    return prior.graph(present, mask).astype(jnp.uint8), expected
