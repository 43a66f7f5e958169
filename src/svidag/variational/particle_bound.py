"""The bounds of Algorithm 1: the only place where their terms meet.

For one order r, one draw z of the flow's base and one minibatch, the conditional bound of the paper
(Eq. conditional-elbo, Algorithm 1) is

    L̂(φ; r) = N/|b| Σ_{n∈b} Σ_j log p(x_nj | g_j(x_n; θ_j)) − KL(q(θ | A) ‖ p(θ | A))
              + log p(γ) − log q(γ | r),        log q(γ | r) = log p_0(z) − log |det ∂γ/∂z|.

The *tight* bound has the logits in the guide alone. Its second line is log p(B) − log q̂(B | r) over
the pairs that the order allows, with p(B_ij = 1) = α_ij/(α_ij + β_ij) and q̂ the average over the
draws of z; without a flow this is the paper's Eq. ELBO-br. An integrated mechanism puts its
evidence Σ_j f_j(A[:, j]) in place of the first line.

Every evaluated graph is a hard DAG; derivatives with respect to edges and orders need more:

- *straight-through*: A is differentiated as its relaxation Ã, by the slope of L̂ at the hard graph.
  Where a mechanism has been fitted, that slope is nearly zero for an edge that is there, however
  much it explains. (An integrated mechanism has no slope there; its change by the edge serves.)
- *difference*: the change D_ij of L̂ by each edge. For the logits, σ'(γ_ij) D_ij has the mean of the
  exact gradient; for the order, the relaxed mask M̃_ij is weighed by what the pair would bring.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from svidag.data import Dataset
from svidag.kernels import noise
from svidag.mechanisms.mlp import MLPMechanism
from svidag.orders.relaxation import hard_mask, straight_through
from svidag.prior.jax_edges import JaxEdgePrior
from svidag.variational.guide import BernoulliGuide, EdgeGuide
from svidag.variational.relaxed_edges import relax_edges
from svidag.variational.tight_bound import local_expectation, log_guide


class Rows(eqx.Module):
    """Measurements, and which of them count as evidence about their own causes."""

    values: Float[Array, "N m"]
    observed: Bool[Array, "N m"]

    @classmethod
    def of(cls, data: Dataset) -> Rows:
        """The rows of a table; entries that were set from outside do not count."""
        values = np.asarray(data.values, np.float32)
        return cls(*jax.device_put((values, ~data.intervened)))

    def batches(self, key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Values and evidence of rows drawn with replacement, both [*shape, m]."""
        chosen = noise.integers(key, shape, self.values.shape[0])
        return self.values[chosen], self.observed[chosen]


class Networks(eqx.Module):
    """What is learned: the guide over edges, and over mechanisms unless these are integrated."""

    edges: EdgeGuide | BernoulliGuide
    mechanism: MLPMechanism | None


class Evidence(NamedTuple):
    """What an integrated mechanism says about drawn graphs, one for each order and draw.

    Attributes
    ----------
    scores
        f_j(A[:, j]).
    changes
        Δ_ij = f_j(parents with i) − f_j(parents without i).
    """

    scores: Float[Array, "KS m"]
    changes: Float[Array, "KS m m"]


class BoundTerms(NamedTuple):
    """The parts of the bound, each with the sign it has in the sum."""

    log_likelihood: Float[Array, "*shape"]
    parameters: Float[Array, "*shape"]
    noise: Float[Array, "*shape"]
    log_prior: Float[Array, "*shape"]
    entropy: Float[Array, "*shape"]

    @property
    def total(self) -> Float[Array, "*shape"]:
        """The bound."""
        return self.log_likelihood + self.parameters + self.noise + self.log_prior + self.entropy


class BoundEstimation(NamedTuple):
    """How a bound is estimated: edge temperature T, rows per minibatch |b|, draws S_MC.

    `edge_gradient` and `bound` are the settings of these names; `kl_weight` weighs the divergence
    of the parameters (1 in a bound).
    """

    temperature: float
    batch: int
    draws: int
    edge_gradient: str = "straight-through"
    bound: str = "published"
    kl_weight: float = 1.0


class EdgeDraws(NamedTuple):
    """Graphs drawn from the guide, with what is needed to differentiate them.

    Attributes
    ----------
    gamma
        Edge logits.
    hard, soft
        Edges B and their relaxation B̃, before the order allows them or not.
    graph
        A = B ⊙ M(r).
    log_prior, entropy
        log p(γ) and −log q(γ | r); for the tight bound, zero.
    """

    gamma: Float[Array, "KS m m"]
    hard: Float[Array, "KS m m"]
    soft: Float[Array, "KS m m"]
    graph: Float[Array, "KS m m"]
    log_prior: Float[Array, " KS"]
    entropy: Float[Array, " KS"]


def conditional_bound(
    networks: Networks,
    prior: JaxEdgePrior,
    rows: Rows,
    r: Float[Array, "K m"],
    soft_masks: Float[Array, "K m m"],
    key: Array,
    estimation: BoundEstimation,
    *,
    evidence: Evidence | None = None,
    hardness: Float[Array, ""] | None = None,
) -> tuple[BoundTerms, Float[Array, " K"]]:
    """L̂(φ; r) of each order, averaged over S_MC draws, and the mean number of edges.

    Every draw has its own γ, edges, θ and minibatch. `evidence` of the graphs that `draw_edges`
    gives for the same key takes the place of a mechanism. With `hardness` w the evaluated graph is
    Ã + w (A − Ã), the author's warm-up; it is no DAG before w = 1.
    """
    K, draws = len(r), estimation.draws
    each, masks = jnp.repeat(r, draws, axis=0), jnp.repeat(soft_masks, draws, axis=0)
    _, _, key_theta, key_rows = noise.split(key, 4)
    drawn = draw_edges(networks, prior, r, key, estimation)
    relaxed = prior.graph(drawn.soft, masks)
    by_node = None
    if networks.mechanism is not None:
        batch = rows.batches(key_rows, (len(each), estimation.batch))
        scale = rows.values.shape[0] / estimation.batch
        by_node = _mechanism_terms(networks.mechanism, batch, scale, key_theta, estimation)

    if by_node is not None and estimation.edge_gradient == "straight-through":
        A = drawn.graph if hardness is None else relaxed + hardness * (drawn.graph - relaxed)
        parts, effects = by_node(straight_through(A, relaxed)), None
    elif by_node is not None:
        parts = by_node(drawn.graph)
        effects = edge_effects(lambda A: by_node(A).sum(axis=0), drawn.graph)
    else:
        if evidence is None:
            raise ValueError("without a mechanism to evaluate, evidence must be given")
        none = jnp.zeros_like(evidence.scores.T)
        parts, effects = jnp.stack([evidence.scores.T, none, none]), evidence.changes

    log_likelihood, parameters, scales = parts.sum(axis=1)
    log_prior, entropy = drawn.log_prior, drawn.entropy
    if estimation.bound == "tight":
        log_prior, entropy = _tight_terms(prior, each, drawn, estimation)
    if effects is not None:
        slope = _slope(prior, each, masks, drawn, relaxed, effects, estimation)
        log_likelihood = log_likelihood + straight_through(jnp.zeros_like(slope), slope)
    terms = BoundTerms(log_likelihood, parameters, scales, log_prior, entropy)
    edges = jax.lax.stop_gradient(drawn.graph.sum(axis=(1, 2)))
    return jax.tree.map(lambda x: x.reshape(K, draws).mean(axis=1), (terms, edges))


def draw_edges(
    networks: Networks,
    prior: JaxEdgePrior,
    r: Float[Array, "K m"],
    key: Array,
    estimation: BoundEstimation,
) -> EdgeDraws:
    """S_MC graphs of each order; the draws of one order follow each other."""
    r = jnp.repeat(r, estimation.draws, axis=0)
    key_edges, key_noise, _, _ = noise.split(key, 4)
    keys = noise.split(key_edges, len(r))
    published = estimation.bound == "published"
    gamma, log_prior, entropy = jax.vmap(
        lambda r, key: _edge_terms(networks.edges, prior, r, key, published)
    )(r, keys)
    hard, soft = relax_edges(key_noise, gamma, estimation.temperature)
    graph = prior.graph(hard, hard_mask(r))
    return EdgeDraws(gamma, hard, soft, graph, log_prior, entropy)


def _edge_terms(guide, prior, r, key, published):
    """γ, its log prior and minus its log density, if these are in the bound."""
    if not published:
        none = jnp.zeros((), r.dtype)
        return guide.sample(key, r), none, none
    with jax.named_scope("flow"):
        gamma, log_q = guide.sample_and_log_prob(key, r)
    with jax.named_scope("prior"):
        log_prior = prior.log_density(gamma)
    return gamma, log_prior, -log_q


def _mechanism_terms(mechanism, batch, scale, key, estimation):
    """A function of graphs: the three terms of the bound that depend on them, [3, m, K]."""
    x, observed = batch

    def by_node(A):
        with jax.named_scope("hypernetwork"):
            guide = mechanism.guide(A)
            theta = guide.sample(key)
        with jax.named_scope("network"):
            log_likelihood = scale * mechanism.log_likelihood(theta, A, x, observed)
        with jax.named_scope("prior"):
            kl = mechanism.kl(guide, A)
        if estimation.kl_weight == 1:
            return jnp.stack([log_likelihood, -kl.weights, -kl.noise])
        weight = estimation.kl_weight
        return jnp.stack([log_likelihood, -weight * kl.weights, -weight * kl.noise])

    return by_node


def _open_pairs(prior, r):
    """Pairs that the guide draws: hard knowledge leaves them open and the order allows them."""
    return prior.free[None] & (hard_mask(r) > 0)


def _tight_terms(prior, r, drawn, estimation):
    """log p(B) and −log q̂(B | r); with straight-through slopes, differentiable in B."""
    open_pairs = _open_pairs(prior, r)
    edges = jax.lax.stop_gradient(drawn.hard)
    gamma = jax.lax.stop_gradient(drawn.gamma)
    if estimation.edge_gradient == "straight-through":
        edges, gamma = straight_through(drawn.hard, drawn.soft), drawn.gamma
    odds = prior.log_odds[None]
    log_prior = jnp.where(open_pairs, edges * odds - jax.nn.softplus(odds), 0.0).sum(axis=(1, 2))
    log_q = _over_draws(log_guide, estimation.draws, gamma, edges, open_pairs)
    return log_prior, -log_q.reshape(-1)


def _slope(prior, r, masks, drawn, relaxed, effects, estimation):
    """A function whose derivative stands for that of the bound through edges and orders."""
    effects = jax.lax.stop_gradient(effects)
    if estimation.edge_gradient == "straight-through":
        return jnp.einsum("kij,kij->k", relaxed, effects)
    share = jax.nn.sigmoid(drawn.gamma)
    fixed = jax.lax.stop_gradient(share)
    if estimation.bound == "published":
        by_order = jnp.einsum("kij,kij->k", prior.graph(fixed, masks), effects)
        edges = prior.graph(share, hard_mask(r))
        return jnp.einsum("kij,kij->k", edges, effects) + by_order
    odds = prior.log_odds[None]
    divergence = fixed * (jax.lax.stop_gradient(drawn.gamma) - odds)
    divergence += jax.nn.log_sigmoid(-jax.lax.stop_gradient(drawn.gamma)) + jax.nn.softplus(odds)
    gain = jnp.where(prior.required[None], effects, fixed * effects - divergence)
    by_order = jnp.where(prior.allowed[None], masks * gain, 0.0).sum(axis=(1, 2))
    pairs = drawn.gamma, drawn.hard > 0, effects + odds, _open_pairs(prior, r)
    by_edges = _over_draws(local_expectation, estimation.draws, *pairs)
    return by_order + jnp.repeat(by_edges, estimation.draws)


def _over_draws(function, draws, *parts):
    """Apply a function of [S, pairs], …, open pairs [pairs] to each order's draws."""
    flat = [part.reshape(-1, draws, part.shape[-1] * part.shape[-2]) for part in parts]
    return jax.vmap(lambda *one: function(*one[:-1], one[-1][0]))(*flat)


def edge_effects(
    by_node: Callable[[Float[Array, "K m m"]], Float[Array, "m K"]], A: Float[Array, "K m m"]
) -> Float[Array, "K m m"]:
    """D_ij = F_j(A with i → j) − F_j(A without it), for a bound Σ_j F_j(A[:, j]).

    Nodes separate, so that one evaluation gives what variable i does to every other: m in all.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> parents = lambda A: 2.0 ** A.sum(axis=1).T
    >>> edge_effects(parents, jnp.array([[[0.0, 1.0], [0.0, 0.0]]])).tolist()
    [[[0.0, 1.0], [1.0, 0.0]]]
    """
    others = 1 - jnp.eye(A.shape[-1], dtype=A.dtype)
    at = by_node(A)

    def effect(i):
        row = others[i][None] - A[:, i]
        return (row - A[:, i]) * (by_node(A.at[:, i].set(row)) - at).T

    return jnp.moveaxis(jax.lax.map(effect, jnp.arange(A.shape[-1])), 0, 1)
