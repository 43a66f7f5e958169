"""DDS, also VI-DP-DAG: differentiable DAG sampling (Charpentier et al., ICLR 2022).

Orders are drawn by sorting Gumbel scores, edges independently, and A = b ⊙ M(order) has no cycle:

    s = log softmax(ψ) + Gumbel,    b_ij ~ Bernoulli(σ(e_ij)),    x̂_j = f_j(A[:, j] ⊙ x),

with derivatives straight through SoftSort and the relaxed edges. Networks, ψ and e follow

    mean (x − x̂)² + ρ K,    K = mean_{i≠j} KL(Bernoulli(σ(e_ij)) ‖ Bernoulli(p_ij)).

A step is an epoch: a pass over the training rows in minibatches, and a look at the held-out rows
with the single graph of sorted ψ and σ(e) > ½.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from svidag.kernels import noise
from svidag.kernels.descent import adam, descend
from svidag.networks.node_mlp import NodeMLP
from svidag.orders.relaxation import hard_mask
from svidag.orders.softsort import gumbel_scores, raise_causes, sorted_mask
from svidag.prior.jax_edges import JaxEdgePrior
from svidag.run.loop import CompiledAlgorithm
from svidag.run.streams import host_generator
from svidag.variational.dds_settings import DDSSettings
from svidag.variational.minibatches import epoch_batches, summarise_epoch
from svidag.variational.relaxed_edges import draw_relaxed_edges

SMALLEST = 1e-7
"""Probabilities of edges are kept this far from 0 and 1 in the divergence."""

GAP = 0.01
"""By how much the score of a required cause stays above that of its effect."""


class GraphParameters(eqx.Module):
    """ψ, the log weights of orders, and e, the logits of edges."""

    psi: Float[Array, " m"]
    logits: Float[Array, "m m"]


class DDSState(eqx.Module):
    """Everything that an epoch changes; `best` has the lowest error on held-out rows so far."""

    graph: GraphParameters
    networks: NodeMLP
    graph_optimiser: Any
    network_optimiser: Any
    best: GraphParameters
    best_error: Float[Array, ""]
    best_epoch: Int[Array, ""]
    epoch: Int[Array, ""]
    rejected: Int[Array, ""]


class DDSInfo(NamedTuple):
    """The metrics of an epoch.

    Attributes
    ----------
    loss
        Error and weighted divergence, averaged over minibatches.
    held_out
        Mean squared error on held-out rows with the single graph.
    edges
        Expected number of edges, Σ_{i≠j} σ(e_ij)/2 where nothing is required or forbidden.
    left_out
        Minibatches whose gradient was not finite.
    rejected
        Epochs in a row without a step.
    """

    loss: Float[Array, ""]
    held_out: Float[Array, ""]
    edges: Float[Array, ""]
    left_out: Int[Array, ""]
    rejected: Int[Array, ""]


class DAGSampling(CompiledAlgorithm[DDSState]):
    """Differentiable DAG sampling on rows for training and rows held out."""

    values: Float[Array, "N m"]
    observed: Bool[Array, "N m"]
    held_values: Float[Array, "H m"]
    held_observed: Bool[Array, "H m"]
    prior: JaxEdgePrior
    above: Float[Array, "m m"]
    probability: Float[Array, "m m"]
    settings: DDSSettings = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> DDSState:
        """ψ = 0, logits from U(0, 1), networks as usual in PyTorch."""
        rng, m = host_generator(key), self.values.shape[1]
        start = jax.device_put((np.zeros(m, np.float32), rng.random((m, m), np.float32)))
        graph, networks = GraphParameters(*start), NodeMLP.uniform(m, self.settings.hidden, rng)
        rules = _rules(self.settings)
        none = jax.device_put(np.int32(0))
        return DDSState(
            graph,
            networks,
            rules[0].init(graph),
            rules[1].init(networks),
            graph,
            jax.device_put(np.float32(np.inf)),
            none,
            none,
            none,
        )

    def step(self, state: DDSState, key: PRNGKeyArray) -> tuple[DDSState, DDSInfo]:
        """One epoch."""
        keys = noise.split(key, 2)
        rows, weights = epoch_batches(keys[0], len(self.values), self.settings.batch)
        batch_keys = noise.split(keys[1], len(rows))

        def minibatch(state, batch):
            return self._minibatch(state, *batch)

        state, (losses, finite) = jax.lax.scan(minibatch, state, (rows, weights, batch_keys))
        epoch = state.epoch + 1
        error = self.held_out_error(state.graph, state.networks)
        better = (error < state.best_error) & (epoch % self.settings.check_every == 0)
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), state.graph, state.best)
        summary = summarise_epoch(losses, finite, state.rejected)
        state = DDSState(
            state.graph,
            state.networks,
            state.graph_optimiser,
            state.network_optimiser,
            best,
            jnp.where(better, error, state.best_error),
            jnp.where(better, epoch, state.best_epoch),
            epoch,
            summary.rejected,
        )
        edges = jnp.where(self.prior.free, jax.nn.sigmoid(state.graph.logits), 0.0).sum() / 2
        return state, DDSInfo(summary.loss, error, edges, summary.left_out, summary.rejected)

    def _minibatch(self, state: DDSState, rows: Array, weights: Array, key: Array) -> Any:
        def loss(graph, networks):
            A = self.draw(key, graph)
            x, seen = self.values[rows], self.observed[rows]
            error = squared_error(networks(A, x) - x, seen & (weights[:, None] > 0))
            return error + self.settings.divergence_weight * self.divergence(graph.logits)

        value, gradients = jax.value_and_grad(loss, (0, 1))(state.graph, state.networks)
        finite = jnp.isfinite(value) & jnp.isfinite(optax.tree.norm(gradients, squared=True))
        rules = _rules(self.settings)
        graph, graph_optimiser = descend(
            rules[0], gradients[0], state.graph_optimiser, state.graph, finite
        )
        networks, network_optimiser = descend(
            rules[1], gradients[1], state.network_optimiser, state.networks, finite
        )
        moved = DDSState(
            graph,
            networks,
            graph_optimiser,
            network_optimiser,
            state.best,
            state.best_error,
            state.best_epoch,
            state.epoch,
            state.rejected,
        )
        return moved, (value, finite)

    def draw(self, key: PRNGKeyArray, graph: GraphParameters) -> Float[Array, "m m"]:
        """A draw of A, with the derivatives of the relaxed order and the relaxed edges."""
        s, keys = self.settings, noise.split(key, 2)
        scores = raise_causes(gumbel_scores(keys[0], graph.psi), self.above)
        edges = draw_relaxed_edges(keys[1], graph.logits, s.edge_temperature)
        return self.prior.graph(edges, sorted_mask(scores, s.order_temperature))

    def held_out_error(self, graph: GraphParameters, networks: NodeMLP) -> Float[Array, ""]:
        """Mean squared error on held-out rows with the order of ψ and the edges above ½."""
        mask = hard_mask(raise_causes(graph.psi, self.above))
        A = self.prior.graph((graph.logits > 0).astype(mask.dtype), mask)
        return squared_error(networks(A, self.held_values) - self.held_values, self.held_observed)

    def divergence(self, logits: Float[Array, "m m"]) -> Float[Array, ""]:
        """K, averaged over ordered pairs; pairs that hard knowledge decides add nothing."""
        p, m = self.probability, len(logits)
        if self.settings.divergence == "logits":
            each = p * (jnp.log(p) - logits)
        else:
            q = jnp.clip(jax.nn.sigmoid(logits), SMALLEST, 1 - SMALLEST)
            each = q * jnp.log(q / p) + (1 - q) * jnp.log((1 - q) / (1 - p))
        return jnp.where(self.prior.free, each, 0.0).sum() / (m * (m - 1))


def squared_error(residuals: Float[Array, "B m"], seen: Bool[Array, "B m"]) -> Float[Array, ""]:
    """The mean over the entries that count."""
    total = jnp.where(seen, residuals**2, 0.0).sum()
    return total / jnp.maximum(seen.sum(), 1).astype(total.dtype)


def _rules(settings: DDSSettings) -> tuple[Any, Any]:
    """Adam for orders and edges, and for the networks."""
    unlimited = float("inf")
    return adam(settings.graph_rate, unlimited), adam(settings.network_rate, unlimited)
