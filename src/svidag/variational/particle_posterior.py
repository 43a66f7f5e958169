"""What Algorithm 1 leaves behind: graphs from particles and flow, parameters from the hypernetwork.

A draw is r from the particles, γ from the flow given r, hard edges 1[γ + R > 0] and the hard mask;
nothing is tempered, reweighted or thresholded afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt8

from svidag.data import Scaling
from svidag.kernels import noise
from svidag.mechanisms.equations import ParameterDistribution
from svidag.mechanisms.mlp import MLPMechanism
from svidag.orders.mask import before
from svidag.orders.relaxation import hard_mask
from svidag.posterior import GraphDistribution
from svidag.prior.jax_edges import JaxEdgePrior
from svidag.run import streams
from svidag.run.loop import compiled
from svidag.run.streams import Stream, generator
from svidag.variational.guide import BernoulliGuide, EdgeGuide
from svidag.variational.network_equations import NetworkEquations, draw_parameters
from svidag.variational.order_guide import GaussianOrders, feasible_potentials
from svidag.variational.particle_bound import Networks

CHUNK = 500  # graphs drawn per compiled call
AVERAGED = 4000  # draws of (r, γ) behind the edge probabilities
ORDER_TRIES = 200  # rounds of redrawing orders that a required edge rules out


@dataclass(frozen=True, eq=False)
class GuideGraphs(GraphDistribution):
    """q(A): the distribution over graphs that the fitted guide draws from."""

    networks: Networks
    orders: Float[Array, "K m"] | GaussianOrders
    prior: JaxEdgePrior

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws of A = B ⊙ M(r)."""
        return np.concatenate([np.asarray(drawn.graphs) for drawn in self._chunks(n, seed)])[:n]

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """The mean of σ(γ) ⊙ M(r) over draws of r and γ, which spares the noise of the edges."""
        chunks = (np.asarray(drawn.probabilities, float) for drawn in self._chunks(AVERAGED, 0))
        return np.mean([chunk.mean(axis=0) for chunk in chunks], axis=0)

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> None:
        """Not available: a graph's probability sums over all logits and orders."""

    def _chunks(self, n: int, seed: int) -> Iterator[GraphDraws]:
        for chunk in range(-(-n // CHUNK)):
            rng = generator(seed, Stream.GRAPH_DRAWS, chunk)
            key = rng.integers(2**32, size=2, dtype=np.uint32)
            orders = jnp.asarray(self._draw_orders(rng))
            yield _draw(self.networks.edges, self.prior, orders, jnp.asarray(key))

    def _draw_orders(self, rng: np.random.Generator) -> Float[np.ndarray, "chunk m"]:
        if not isinstance(self.orders, GaussianOrders):
            return np.asarray(self.orders)[rng.integers(len(self.orders), size=CHUNK)]
        mean, spread = (np.asarray(x) for x in (self.orders.mean, self.orders.scale))
        required = np.asarray(self.prior.required)
        orders = np.empty((0, len(mean)), np.float32)
        for _ in range(ORDER_TRIES):
            more = mean + spread * rng.standard_normal((CHUNK, len(mean)), np.float32)
            possible = (~required | before(more)).all(axis=(1, 2))
            orders = np.concatenate([orders, more[possible]])[:CHUNK]
            if len(orders) == CHUNK:
                return orders
        last = mean + spread * rng.standard_normal((CHUNK - len(orders), len(mean)), np.float32)
        return np.concatenate([orders, feasible_potentials(last, required)])


class GraphDraws(NamedTuple):
    """Graphs, and the probability of each of their edges given r and γ."""

    graphs: UInt8[Array, "S m m"]
    probabilities: Float[Array, "S m m"]


@compiled
def _draw(
    guide: EdgeGuide | BernoulliGuide, prior: JaxEdgePrior, r: Array, key_data: Array
) -> GraphDraws:
    key = jax.random.wrap_key_data(key_data, impl="threefry2x32")
    key_logits, key_edges = noise.split(key, 2)
    gamma = jax.vmap(guide.sample)(noise.split(key_logits, len(r)), r)
    mask = hard_mask(r)
    present = (gamma + noise.logistic(key_edges, gamma.shape) > 0).astype(mask.dtype)
    graphs = prior.graph(present, mask).astype(jnp.uint8)
    return GraphDraws(graphs, prior.graph(jax.nn.sigmoid(gamma), mask))


@dataclass(frozen=True, eq=False)
class NetworkParameters(ParameterDistribution):
    """q(θ | A) from the hypernetwork, in the units of the table."""

    networks: Networks
    scaling: Scaling | None

    def parameters(
        self, graph: UInt8[np.ndarray, "m m"], n: int, seed: int
    ) -> dict[str, np.ndarray]:
        """`weights[l]` [n, m, in, out] and `biases[l]` [n, m, out] of layer l, `noise_sd` [n, m].

        The network of node j takes the measured values x of all variables; what is no parent of j
        has the weight 0. Layers but the last end in tanh; `skip` [n, m, in], where there is one,
        are weights of x that are added to the last.
        """
        keys = jax.random.split(_key(seed), n)
        mechanism = _network(self.networks)
        drawn = draw_parameters(mechanism, jnp.asarray(graph, jnp.float32), keys)
        weights = [np.asarray(weight, float) for weight in drawn.weights]
        biases = [np.asarray(bias, float) for bias in drawn.biases]
        weights[0] *= graph.T[:, :, None]
        skip = None if drawn.skip is None else np.asarray(drawn.skip, float) * graph.T
        sd = np.sqrt(np.asarray(mechanism.noise_variance(drawn), float))
        if self.scaling is not None:
            _to_table_units(weights, biases, skip, self.scaling)
            sd *= self.scaling.scale
        layers = {"weights": weights, "biases": biases}
        named = {f"{name}[{at}]": x for name in layers for at, x in enumerate(layers[name])}
        return named | ({} if skip is None else {"skip": skip}) | {"noise_sd": sd}

    def draw(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> NetworkEquations:
        """Draw θ once for each graph, for all nodes: a hypernetwork may see the whole graph."""
        keys = jax.random.split(_key(seed), len(graphs))
        return NetworkEquations(graphs, _network(self.networks), keys, self.scaling)


def _network(networks: Networks) -> MLPMechanism:
    if networks.mechanism is None:
        raise ValueError("an integrated mechanism has its own distribution of parameters")
    return networks.mechanism


def _key(seed: int) -> Array:
    return streams.key(seed, Stream.PARAMETERS)


def _to_table_units(
    weights: list[Float[np.ndarray, "n m _ _"]],
    biases: list[Float[np.ndarray, "n m _"]],
    skip: Float[np.ndarray, "n m m"] | None,
    scaling: Scaling,
) -> None:
    """Let networks between standardised variables, f(z), work on measured ones, in place.

    c_j + s_j f_j((x − c) / s): the first layer takes up the scaling of the parents, the last one
    that of the node.
    """
    weights[0] /= scaling.scale[:, None]
    biases[0] -= np.einsum("njih,i->njh", weights[0], scaling.centre)
    weights[-1] *= scaling.scale[:, None, None]
    biases[-1] *= scaling.scale[:, None]
    biases[-1] += scaling.centre[:, None]
    if skip is not None:
        skip *= scaling.scale[:, None] / scaling.scale
        biases[-1] -= np.einsum("nji,i->nj", skip, scaling.centre)[..., None]
