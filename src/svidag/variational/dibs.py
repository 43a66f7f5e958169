"""DiBS: Stein particles over latent vectors of graphs (Lorch et al., NeurIPS 2021).

The likelihood's gradient is a ratio of expectations over graphs, estimated by M draws,

    ∇_Z log E_{G|Z}[p(D | G)] = Σ_m w_m ∇_Z log p(G_m | Z),    w = softmax_m log p(D | G_m),

where parameters are integrated out (`MarginalDiBS`); with networks θ among the particles
(`JointDiBS`), graphs are relaxed and the gradient of log p(θ, D | G̃_m) takes the place of the
score. Edges are independent given Z and likelihoods factorise over nodes, so the expectation is
itself a product over nodes: with ``ratio="node"`` each node has weights of its own, an estimate of
the same gradient with far less variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8
from scipy.special import softmax

from svidag.kernels import noise
from svidag.kernels.descent import Rule, descend, guarded
from svidag.mechanisms.linear import LinearGaussian
from svidag.networks.node_mlp import NodeMLP
from svidag.run.loop import CompiledAlgorithm, HostAlgorithm, compiled
from svidag.run.streams import host_generator
from svidag.samplers.stein import sum_of_kernels
from svidag.variational.dibs_settings import DiBSSettings
from svidag.variational.dibs_target import DiBSTarget, Latent, cycles

CELLS_AT_ONCE = 2**24
"""Hidden units of all rows, nodes and graphs of a particle that are held at once."""


class DiBSState(eqx.Module):
    """Everything that a step changes."""

    latent: Latent
    networks: NodeMLP | None
    optimiser: Any
    count: Int[Array, ""]
    rejected: Int[Array, ""]


class DiBSInfo(NamedTuple):
    """The metrics of a step.

    Attributes
    ----------
    likelihood
        log E[p(D | G)] as estimated, averaged over particles.
    largest_weight
        The share of the heaviest of the M graphs in the likelihood's gradient, averaged.
    edges
        The mean number of edges of the particles' graphs.
    cycles
        h of the particles' graphs, averaged.
    rejected
        Steps in a row that were left out because they were not finite.
    """

    likelihood: Float[Array, ""]
    largest_weight: Float[Array, ""]
    edges: Float[Array, ""]
    cycles: Float[Array, ""]
    rejected: Int[Array, ""]


class Estimate(NamedTuple):
    """The likelihood's gradient: with respect to s, and to the networks where there are any."""

    slope: Float[Array, "K m m"]
    networks: NodeMLP | None
    likelihood: Float[Array, ""]
    largest_weight: Float[Array, ""]


def start(key: PRNGKeyArray, m: int, settings: DiBSSettings, *, with_networks: bool) -> DiBSState:
    """Latent vectors from N(0, 1/k), networks from their prior."""
    rng = host_generator(key)
    k = m if settings.latent is None else settings.latent
    vectors = rng.standard_normal((2, settings.particles, m, k), np.float32) / np.float32(k**0.5)
    latent = Latent(*jax.device_put(tuple(vectors)))
    networks = None
    if with_networks:
        networks = NodeMLP.normal(m, settings.hidden, rng, settings.particles)
    none = jax.device_put(np.int32(0))
    return DiBSState(latent, networks, _rule(settings).init((latent, networks)), none, none)


def move(
    target: DiBSTarget,
    settings: DiBSSettings,
    state: DiBSState,
    estimate: Estimate,
    key: PRNGKeyArray,
) -> tuple[DiBSState, DiBSInfo]:
    """Add the prior's gradient and let the particles take a Stein step."""
    alpha, beta = slopes(settings, state.count)
    scores, latent = state.latent.scores, state.latent
    slope = estimate.slope + target.prior_slope(key, scores, alpha, beta, settings.cycle_draws)
    k = latent.cause.shape[-1]
    gradient = jax.tree.map(lambda g, z: g - k * z, latent.pull_back(slope), latent)
    parts, rebuild = _flatten((latent, state.networks))
    gradients, _ = _flatten((gradient, estimate.networks))
    bandwidths = (settings.bandwidth, settings.network_bandwidth)[: len(parts)]
    ascent = rebuild(sum_of_kernels(gradients, parts, bandwidths))
    descent = jax.tree.map(jnp.negative, ascent)
    finite = jnp.isfinite(optax.tree.norm(descent, squared=True))
    (latent, networks), optimiser = descend(
        _rule(settings), descent, state.optimiser, (latent, state.networks), finite
    )
    rejected = jnp.where(finite, 0, state.rejected + 1)
    graphs = target.graphs(scores)
    info = DiBSInfo(
        estimate.likelihood,
        estimate.largest_weight,
        graphs.sum(axis=(1, 2)).mean(),
        cycles(graphs).mean(),
        rejected,
    )
    return DiBSState(latent, networks, optimiser, state.count + 1, rejected), info


def slopes(settings: DiBSSettings, count: Int[Array, ""]) -> tuple[Array, Array]:
    """α_t = a t and β_t = b t."""
    assert settings.edge_slope is not None, "resolved before the algorithm is built"
    t = count.astype(jnp.float32)
    return settings.edge_slope * t, settings.cycle_slope * t


def _rule(settings: DiBSSettings) -> Rule:
    return guarded(optax.rmsprop(settings.learning_rate, decay=0.9, eps=1e-8))


def _flatten(trees: tuple[Any, Any]) -> tuple[list[Float[Array, "K _"]], Any]:
    """Each tree of arrays [K, …] as one matrix, and the way back; without those that are None."""
    present = [tree for tree in trees if tree is not None]
    parts = [
        jnp.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)], axis=1)
        for tree in present
    ]

    def rebuild(moved: list[Array]) -> tuple[Any, Any]:
        rebuilt = []
        for part, tree in zip(moved, present, strict=True):
            leaves, structure = jax.tree.flatten(tree)
            cuts = np.cumsum([leaf[0].size for leaf in leaves])[:-1]
            pieces = jnp.split(part, cuts, axis=1)
            shaped = [piece.reshape(x.shape) for piece, x in zip(pieces, leaves, strict=True)]
            rebuilt.append(structure.unflatten(shaped))
        return rebuilt[0], rebuilt[1] if len(rebuilt) > 1 else None

    return parts, rebuild


@dataclass(frozen=True, eq=False)
class MarginalDiBS(HostAlgorithm[DiBSState]):
    """DiBS with integrated linear mechanisms: graphs are drawn by JAX and scored on the host."""

    scores: LinearGaussian
    target: DiBSTarget
    settings: DiBSSettings

    def init(self, key: PRNGKeyArray) -> DiBSState:
        """Latent vectors from their prior."""
        return start(key, self.scores.m, self.settings, with_networks=False)

    def step(self, state: DiBSState, key: PRNGKeyArray) -> tuple[DiBSState, DiBSInfo]:
        """Weigh M graphs of every particle by their evidence, in float64, and move."""
        s = self.settings
        graphs = _draw_graphs(self.target, s, state, key)
        K, M, m, _ = graphs.shape
        evidence = self.scores.graph_scores(np.asarray(graphs).reshape(K * M, m, m))
        weights, likelihood = weigh(evidence.reshape(K, M, m), s.ratio == "node")
        weighed = jax.device_put((weights.astype(np.float32), np.float32(likelihood)))
        return _moved(self.target, s, state, key, graphs, *weighed)


def weigh(
    log_likelihood: Float[np.ndarray, "K M m"], by_node: bool
) -> tuple[Float[np.ndarray, "K M m"], float]:
    """Softmax over the M graphs, of all nodes together or of each, and the mean log likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> apart = np.log([[[1.0, 3.0], [3.0, 1.0]]])
    >>> weigh(apart, by_node=False)[0][0, 0].round(2).tolist()
    [0.5, 0.5]
    >>> weigh(apart, by_node=True)[0][0, 0].round(2).tolist()
    [0.25, 0.75]
    """
    M = log_likelihood.shape[1]
    if by_node:
        total = np.logaddexp.reduce(log_likelihood, axis=1).sum(axis=1)
        return softmax(log_likelihood, axis=1), float(total.mean() - log(M))
    graph = log_likelihood.sum(axis=2, keepdims=True)
    weights = np.broadcast_to(softmax(graph, axis=1), log_likelihood.shape)
    return weights, float(np.logaddexp.reduce(graph, axis=1).mean() - log(M))


@compiled
def _draw_graphs(target: DiBSTarget, settings: DiBSSettings, state: DiBSState, key: Array) -> Array:
    assert settings.graph_draws is not None, "resolved before the algorithm is built"
    alpha, _ = slopes(settings, state.count)
    key = noise.split(key, 2)[0]
    graphs = target.draw_hard(key, state.latent.scores, alpha, settings.graph_draws)
    return graphs.astype(jnp.uint8)


@compiled
def _moved(
    target: DiBSTarget,
    settings: DiBSSettings,
    state: DiBSState,
    key: Array,
    graphs: Array,
    weights: Array,
    likelihood: Array,
) -> tuple[DiBSState, DiBSInfo]:
    alpha, _ = slopes(settings, state.count)
    slope = target.evidence_slope(graphs.astype(jnp.float32), weights, state.latent.scores, alpha)
    estimate = Estimate(slope, None, likelihood, weights.max(axis=1).mean())
    return move(target, settings, state, estimate, noise.split(key, 2)[1])


class JointDiBS(CompiledAlgorithm[DiBSState]):
    """DiBS with a network for every node and particle, Gaussian noise of known variance."""

    values: Float[Array, "N m"]
    observed: Bool[Array, "N m"]
    target: DiBSTarget
    settings: DiBSSettings = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> DiBSState:
        """Latent vectors and networks from their prior."""
        return start(key, self.values.shape[1], self.settings, with_networks=True)

    def step(self, state: DiBSState, key: PRNGKeyArray) -> tuple[DiBSState, DiBSInfo]:
        """One Stein step of latent vectors and networks together."""
        s = self.settings
        assert s.graph_draws is not None, "resolved before the algorithm is built"
        keys = noise.split(key, 3)
        alpha, _ = slopes(s, state.count)
        scores = state.latent.scores
        draws = s.graph_draws

        def by_scores(scores):
            return self.target.draw_soft(keys[0], scores, alpha, draws)

        soft, pull = jax.vjp(by_scores, scores)
        hard = self.target.draw_hard(keys[1], scores, alpha, draws)

        def gradients(particle):
            networks, soft, hard = particle
            (likelihood, largest), slope = jax.value_and_grad(self._ratio, 1, has_aux=True)(
                networks, soft
            )
            of_networks, _ = jax.grad(self._ratio, 0, has_aux=True)(networks, hard)
            return slope, of_networks, likelihood, largest

        slope, of_networks, likelihood, largest = jax.lax.map(
            gradients, (state.networks, soft, hard)
        )
        estimate = Estimate(pull(slope)[0], of_networks, likelihood.mean(), largest.mean())
        return move(self.target, s, state, estimate, keys[2])

    def _ratio(self, networks: NodeMLP, graphs: Float[Array, "M m m"]) -> tuple[Array, Array]:
        """log of the mean of p(θ, D | G) over graphs, and the largest share of one of them."""
        each = self.log_joint(networks, graphs)
        if self.settings.ratio == "graph":
            each = each.sum(axis=1, keepdims=True)
        total = logsumexp(each, axis=0)
        largest = jnp.exp(each.max(axis=0) - total).mean()
        return total.sum() - each.shape[1] * log(len(graphs)), jax.lax.stop_gradient(largest)

    def log_joint(self, networks: NodeMLP, graphs: Float[Array, "M m m"]) -> Float[Array, "M m"]:
        """log p(θ_j, D_j | G) of each graph and node; first weights count as far as G has them."""
        cells = self.values.shape[0] * sum(bias.size for bias in networks.biases)
        batch = max(1, CELLS_AT_ONCE // cells)
        likelihood = lambda A: self._log_likelihood(networks, A)  # noqa: E731
        if batch >= len(graphs):
            fitted = jax.vmap(likelihood)(graphs)
        else:
            fitted = jax.lax.map(jax.checkpoint(likelihood), graphs, batch_size=batch)
        first, *others = [-0.5 * (weight**2 + log(2 * pi)) for weight in networks.weights]
        others += [-0.5 * (bias**2 + log(2 * pi)) for bias in networks.biases]
        fixed = sum(leaf.sum(axis=tuple(range(1, leaf.ndim))) for leaf in others)
        return fitted + jnp.einsum("gij,jih->gj", graphs, first) + jnp.asarray(fixed)[None]

    def _log_likelihood(self, networks: NodeMLP, A: Float[Array, "m m"]) -> Float[Array, " m"]:
        variance = self.settings.noise_variance
        squares = (self.values - networks(A, self.values)) ** 2
        rows = -0.5 * (squares / variance + log(2 * pi * variance))
        return jnp.where(self.observed, rows, 0.0).sum(axis=0)


def particle_evidence(
    algorithm: MarginalDiBS | JointDiBS,
    state: DiBSState,
    graphs: UInt8[np.ndarray, "k m m"],
    chosen: Bool[np.ndarray, " K"],
) -> Float[np.ndarray, " k"]:
    """log p(D | G), or log p(θ, D | G) with the networks of the chosen particles."""
    if isinstance(algorithm, MarginalDiBS):
        return algorithm.scores.graph_scores(graphs).sum(axis=1)
    networks = jax.tree.map(lambda leaf: leaf[chosen], state.networks)
    edges = jnp.asarray(graphs, jnp.float32)[:, None]
    joint = jax.lax.map(lambda x: algorithm.log_joint(*x), (networks, edges))
    return np.asarray(joint, float).sum(axis=(1, 2))
