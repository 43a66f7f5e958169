"""What Algorithm 1 leaves behind: graphs from particles and flow, parameters from the hypernetwork.

A draw is r from the particles, γ from the flow given r, hard edges 1[γ + R > 0] and the hard mask;
nothing is tempered, reweighted or thresholded afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt8

from svidag.data import Scaling
from svidag.inference.network_equations import NetworkEquations, draw_parameters
from svidag.inference.published import GaussianOrders, feasible_potentials
from svidag.mechanisms.law import MechanismLaw
from svidag.objective import Beliefs, Networks
from svidag.order import hard_mask
from svidag.posterior import GraphLaw

CHUNK = 500  # graphs drawn per compiled call
AVERAGED = 4000  # draws of (r, γ) behind the edge probabilities
ORDER_TRIES = 200  # rounds of redrawing orders that a required edge rules out
_STREAM = 1 << 30  # keeps draws of parameters apart from those of graphs, which share the seed


@dataclass(frozen=True, eq=False)
class GuideLaw(GraphLaw):
    """q(A): the distribution over graphs that the fitted guide draws from."""

    networks: Networks
    orders: Float[Array, "K m"] | GaussianOrders
    beliefs: Beliefs

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws of A = B ⊙ M(r)."""

        def finish(key, gamma, mask):
            edges = jax.random.bernoulli(key, jax.nn.sigmoid(gamma)).astype(mask.dtype)
            return self.beliefs.edges(edges, mask).astype(jnp.uint8)

        return np.concatenate(list(self._chunks(finish, n, seed)))[:n]

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """The mean of σ(γ) ⊙ M(r) over draws of r and γ, which spares the noise of the edges."""

        def finish(key, gamma, mask):
            return self.beliefs.edges(jax.nn.sigmoid(gamma), mask)

        chunks = [chunk.mean(axis=0, dtype=float) for chunk in self._chunks(finish, AVERAGED, 0)]
        return np.mean(chunks, axis=0)

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> None:
        """Not available: a graph's probability sums over all logits and orders."""

    def _chunks(self, finish: Callable[..., Any], n: int, seed: int):
        draw = eqx.filter_jit(jax.vmap(lambda r, key: self._single(finish, r, key)))
        for chunk in range(-(-n // CHUNK)):
            key_orders, key = jax.random.split(jax.random.fold_in(jax.random.key(seed), chunk))
            orders = self._draw_orders(key_orders)
            yield np.asarray(draw(orders, jax.random.split(key, CHUNK)))

    def _single(self, finish, r, key):
        key_gamma, key_edges = jax.random.split(key)
        return finish(key_edges, self.networks.edges.sample(key_gamma, r), hard_mask(r))

    def _draw_orders(self, key: Array) -> Float[Array, "chunk m"]:
        if not isinstance(self.orders, GaussianOrders):
            return self.orders[jax.random.randint(key, (CHUNK,), 0, len(self.orders))]
        orders = np.array(self.orders.sample(key, CHUNK))
        for attempt in range(ORDER_TRIES):
            bad = ~np.asarray(jax.vmap(self.beliefs.feasible)(jnp.asarray(orders)))
            if not bad.any():
                return jnp.asarray(orders)
            again = self.orders.sample(jax.random.fold_in(key, attempt), CHUNK)
            orders[bad] = np.asarray(again)[bad]
        return jnp.asarray(feasible_potentials(orders, np.asarray(self.beliefs.required)))


@dataclass(frozen=True, eq=False)
class NetworkLaw(MechanismLaw):
    """q(θ | A) from the hypernetwork, with predictions in the units of the table."""

    networks: Networks
    scaling: Scaling | None

    def parameters(
        self, graph: UInt8[np.ndarray, "m m"], n: int, seed: int
    ) -> dict[str, np.ndarray]:
        """Weights, biases and log noise scales of all nodes, for standardised variables."""
        keys = jax.random.split(_key(seed), n)
        drawn = draw_parameters(self.networks.mechanism, jnp.asarray(graph, jnp.float32), keys)
        return {
            jax.tree_util.keystr(path).lstrip("."): np.asarray(leaf)
            for path, leaf in jax.tree.leaves_with_path(drawn)
        }

    def draw(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> NetworkEquations:
        """Draw θ once for each graph, for all nodes: a hypernetwork may see the whole graph."""
        keys = jax.random.split(_key(seed), len(graphs))
        return NetworkEquations(graphs, self.networks.mechanism, keys, self.scaling)


def _key(seed: int) -> Array:
    return jax.random.fold_in(jax.random.key(seed), _STREAM)
