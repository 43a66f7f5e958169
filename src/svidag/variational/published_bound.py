"""The published bounds: the only place where their terms meet.

For one order r, one draw z of the flow's base and one minibatch, the conditional bound of the paper
(Eq. conditional-elbo, Algorithm 1) is

    L̂(φ; r) = N/|b| Σ_{n∈b} Σ_j log p(x_nj | g_j(x_n; θ_j)) − KL(q(θ | A) ‖ p(θ | A))
              + log p(γ) − log q(γ | r),        log q(γ | r) = log p_0(z) − log |det ∂γ/∂z|.

Without a flow the guide is over the edges themselves and the last line becomes −KL(q(B) ‖ p(B)),
with the Beta-Bernoulli prior (Eq. ELBO-br). Every evaluated graph is a hard DAG; derivatives go
through its relaxation Ã: by the straight-through estimator, which takes the derivative of L̂ at the
hard graph for the effect of an edge, or by that effect itself. Where the mechanism has been fitted,
the former is nearly zero for an edge that is there, however much it explains.
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
from svidag.prior import JaxEdgePrior
from svidag.variational.guide import BernoulliGuide, EdgeGuide, relaxed_edges


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
    """What is learned: the guide over edges and the guide over mechanisms."""

    edges: EdgeGuide | BernoulliGuide
    mechanism: MLPMechanism


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

    `edge_gradient` says what the relaxed graph Ã is differentiated against: the bound's derivative
    at the hard graph (``"straight-through"``), or what each edge changes (``"difference"``).
    """

    temperature: float
    batch: int
    draws: int
    edge_gradient: str = "straight-through"


def conditional_bound(
    networks: Networks,
    prior: JaxEdgePrior,
    rows: Rows,
    r: Float[Array, "K m"],
    soft_masks: Float[Array, "K m m"],
    key: Array,
    estimation: BoundEstimation,
) -> tuple[BoundTerms, Float[Array, " K"]]:
    """L̂(φ; r) of each order, averaged over S_MC draws, and the mean number of edges.

    Every draw has its own γ, edges, θ and minibatch.
    """
    K, draws = len(r), estimation.draws
    parts = _draws(
        networks,
        prior,
        rows,
        jnp.repeat(r, draws, axis=0),
        jnp.repeat(soft_masks, draws, axis=0),
        key,
        estimation,
    )
    return jax.tree.map(lambda x: x.reshape(K, draws).mean(axis=1), parts)


def _draws(networks, prior, rows, r, soft_masks, key, estimation):
    key_edges, key_noise, key_theta, key_rows = noise.split(key, 4)
    keys = noise.split(key_edges, len(r))
    gamma, log_prior, entropy = jax.vmap(lambda r, key: _edge_terms(networks.edges, prior, r, key))(
        r, keys
    )
    hard, soft = relaxed_edges(key_noise, gamma, estimation.temperature)
    A, relaxed = prior.graph(hard, hard_mask(r)), prior.graph(soft, soft_masks)
    x, observed = rows.batches(key_rows, (len(r), estimation.batch))

    def by_node(A):
        """The three terms of the bound that depend on the graph, [3, m, K]."""
        with jax.named_scope("hypernetwork"):
            guide = networks.mechanism.guide(A)
            theta = guide.sample(key_theta)
        with jax.named_scope("network"):
            scale = rows.values.shape[0] / estimation.batch
            log_likelihood = scale * networks.mechanism.log_likelihood(theta, A, x, observed)
        with jax.named_scope("prior"):
            kl = networks.mechanism.kl(guide)
        return jnp.stack([log_likelihood, -kl.weights, -kl.noise])

    if estimation.edge_gradient == "difference":
        parts = by_node(A)
        effects = edge_effects(lambda A: by_node(A).sum(axis=0), A)
        weighed = jnp.einsum("kij,kij->k", relaxed, jax.lax.stop_gradient(effects))
        slope = straight_through(jnp.zeros_like(weighed), weighed)
    else:
        parts = by_node(straight_through(A, relaxed))
        slope = jnp.zeros_like(log_prior)
    log_likelihood, parameters, scales = parts.sum(axis=1)
    terms = BoundTerms(log_likelihood + slope, parameters, scales, log_prior, entropy)
    return terms, jax.lax.stop_gradient(A.sum(axis=(1, 2)))


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


def _edge_terms(guide, prior, r, key):
    """γ, its log prior and minus its log density; over B itself, the two parts of −KL."""
    if isinstance(guide, BernoulliGuide):
        log_prior = guide.expected_log_prior(prior.alpha, prior.beta)
        return guide.sample(key, r), log_prior, guide.entropy()
    with jax.named_scope("flow"):
        gamma, log_q = guide.sample_and_log_prob(key, r)
    with jax.named_scope("prior"):
        log_prior = prior.log_density(gamma)
    return gamma, log_prior, -log_q
