"""Unbiased estimates of a node's evidence given its predecessors, with the guide as the proposal.

For node j with the predecessors U, p(D_j | U) = Σ_{B ⊆ U} p(D_j, B) is estimated by

    p̂_j = S⁻¹ Σ_s p(D_j, Bˢ) / q̂_j(Bˢ),       p(D_j, B) = exp f_j(B) Π_{i∈U} p(B_i),

where q̂_j averages over all S draws of z (multiple importance sampling), so that its mean is exact
for every guide. The weights also give a draw of the parents, and the probability of each edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from svidag.mechanisms.local import FamilyScores
from svidag.prior import EdgePrior
from svidag.run.streams import host_generator
from svidag.variational.node_guide import GuideNoise, NodeGuide, draw_parents, of_node

__all__ = ["EvidenceEstimates", "GuideEstimator", "summarise_draws"]

SMALLEST_BATCH = 16
LARGEST_BATCH = 512


class EvidenceEstimates(NamedTuple):
    """What is estimated for each of P pairs of a node and its predecessors.

    Attributes
    ----------
    log_evidence
        log p̂.
    log_known
        log g, the part of p̂ that is not estimated and by which orders are proposed; 0 if there is
        none.
    edges
        The probability of each edge, by the weight of the parent sets in p̂.
    parents
        One of these parent sets, chosen by weight.
    """

    log_evidence: Float[np.ndarray, " P"]
    log_known: Float[np.ndarray, " P"]
    edges: Float[np.ndarray, "P m"]
    parents: Bool[np.ndarray, "P m"]


@dataclass(frozen=True, eq=False)
class GuideEstimator:
    """Importance sampling of parent sets from a stack of node guides.

    Attributes
    ----------
    guides
        One guide per node, stacked.
    scores
        f_j.
    prior
        The prior over edges.
    draws
        S, parent sets per estimate.
    """

    guides: NodeGuide
    scores: FamilyScores
    prior: EdgePrior
    draws: int

    def __call__(
        self, key: PRNGKeyArray, nodes: Int[np.ndarray, " P"], columns: Bool[np.ndarray, "P m"]
    ) -> EvidenceEstimates:
        """Estimate each pair from its own S draws; `columns` marks its possible parents."""
        log_weight, parents = self.weigh(key, nodes, columns)
        uniforms = host_generator(key).random(len(nodes))
        log_evidence, edges, drawn = summarise_draws(log_weight, parents, uniforms)
        return EvidenceEstimates(log_evidence, np.zeros(len(nodes)), edges, drawn)

    def weigh(
        self, key: PRNGKeyArray, nodes: Int[np.ndarray, " P"], columns: Bool[np.ndarray, "P m"]
    ) -> tuple[Float[np.ndarray, "P S"], Bool[np.ndarray, "P S m"]]:
        """log p(D_j, Bˢ) − log q̂_j(Bˢ), and Bˢ."""
        parents, log_guide = self.draw(key, nodes, columns)
        P, S, m = parents.shape
        score = self.scores.family_scores(np.repeat(nodes, S), parents.reshape(-1, m))
        wide = np.broadcast_to(columns[:, None], parents.shape)
        log_prior = self.prior.parents_log_prior(nodes[:, None], wide, parents)
        return score.reshape(P, S) + log_prior - log_guide, parents

    def draw(
        self, key: PRNGKeyArray, nodes: Int[np.ndarray, " P"], columns: Bool[np.ndarray, "P m"]
    ) -> tuple[Bool[np.ndarray, "P S m"], Float[np.ndarray, "P S"]]:
        """Bˢ from the guide, and log q̂_j(Bˢ)."""
        parts = [
            self._batch(jax.random.fold_in(key, start), nodes[rows], columns[rows])
            for start in range(0, len(nodes), LARGEST_BATCH)
            for rows in [slice(start, start + LARGEST_BATCH)]
        ]
        parents, log_guide = (np.concatenate(part) for part in zip(*parts, strict=True))
        return parents, log_guide

    def _batch(self, key, nodes, columns):
        """Draws in float32, in batches padded to a power of two so that few shapes are compiled."""
        P, m = columns.shape
        size = SMALLEST_BATCH
        while size < P:
            size *= 2
        padded = jnp.asarray(np.pad(nodes, (0, size - P)))
        wide = jnp.asarray(np.pad(columns, ((0, size - P), (0, 0))))
        noise = GuideNoise.draw(key, (size, self.draws, m))
        required = jnp.asarray(self.prior.required)
        parents, log_guide = _propose(self.guides, noise, padded, wide, required)
        return np.asarray(parents)[:P], np.asarray(log_guide, dtype=float)[:P]


def summarise_draws(
    log_weight: Float[np.ndarray, "P S"],
    parents: Bool[np.ndarray, "P S m"],
    uniforms: Float[np.ndarray, " P"],
) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, "P m"], Bool[np.ndarray, "P m"]]:
    """The log mean weight, the weighted share of each edge, and one set chosen by weight.

    Where all weights vanish the log is −∞, and the shares are those of the sets as drawn.

    Examples
    --------
    >>> sets = np.array([[[True, False], [False, False]]])
    >>> log_mean, edges, chosen = summarise_draws(np.log([[3.0, 1.0]]), sets, np.array([0.9]))
    >>> float(np.exp(log_mean[0]).round(6)), edges.tolist(), chosen.tolist()
    (2.0, [[0.75, 0.0]], [[False, False]])
    """
    top = log_weight.max(axis=1, keepdims=True)
    nothing = np.isneginf(top)
    weight = np.exp(np.where(nothing, 0.0, log_weight - np.where(nothing, 0.0, top)))
    total = weight.sum(axis=1, keepdims=True)
    log_mean = (top + np.log(total / weight.shape[1]))[:, 0]
    weight /= total
    edges = np.einsum("ps,psm->pm", weight, parents)
    chosen = (weight.cumsum(axis=1) < uniforms[:, None]).sum(axis=1)
    chosen = np.minimum(chosen, weight.shape[1] - 1)
    return log_mean, edges, parents[np.arange(len(weight)), chosen]


@eqx.filter_jit
def _propose(guides, noise, nodes, columns, required):
    def single(noise, node, column):
        drawn = draw_parents(of_node(guides, node), noise, column, required[:, node])
        return drawn.parents, drawn.log_guide

    return jax.vmap(single)(noise, nodes, columns)
