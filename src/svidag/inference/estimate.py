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
from svidag.node_guide import NodeGuide, Noise, draw_parents, of_node
from svidag.tight_bound import EdgeTerms

__all__ = ["Estimates", "GuideEstimator"]

SMALLEST_BATCH = 16
LARGEST_BATCH = 512


class Estimates(NamedTuple):
    """What S draws say about each pair of a node and its predecessors.

    Attributes
    ----------
    log_evidence
        log p̂.
    edges
        Σ_s w_s Bˢ_i with normalised weights w.
    parents
        One of the Bˢ, chosen by weight.
    effective
        1/Σ_s w_s², between 1 and S.
    """

    log_evidence: Float[np.ndarray, " P"]
    edges: Float[np.ndarray, "P m"]
    parents: Bool[np.ndarray, "P m"]
    effective: Float[np.ndarray, " P"]


@dataclass(frozen=True, eq=False)
class GuideEstimator:
    """Importance sampling of parent sets from a stack of node guides.

    Attributes
    ----------
    guides
        One guide per node, stacked.
    scores
        f_j.
    terms
        The prior's terms.
    draws
        S, parent sets per estimate.
    """

    guides: NodeGuide
    scores: FamilyScores
    terms: EdgeTerms
    draws: int

    def __call__(
        self, key: PRNGKeyArray, nodes: Int[np.ndarray, " P"], columns: Bool[np.ndarray, "P m"]
    ) -> Estimates:
        """Estimate each pair from its own S draws; `columns` marks its possible parents."""
        parts = [
            self._batch(jax.random.fold_in(key, start), nodes[rows], columns[rows])
            for start in range(0, max(len(nodes), 1), LARGEST_BATCH)
            for rows in [slice(start, start + LARGEST_BATCH)]
        ]
        return Estimates(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _batch(self, key, nodes, columns):
        parents, log_guide = self._draw(key, nodes, columns)
        P, S, m = parents.shape
        of_draw = np.repeat(nodes, S)
        score = self.scores.family_scores(of_draw, parents.reshape(-1, m)).reshape(P, S)
        wide = np.broadcast_to(columns[:, None], parents.shape)
        log_weight = score + self.terms.log_prior(nodes[:, None], wide, parents) - log_guide
        return summarise(log_weight, parents, host_generator(key))

    def _draw(self, key, nodes, columns):
        """Draws in float32, in batches padded to a power of two so that few shapes are compiled."""
        P, m = columns.shape
        size = SMALLEST_BATCH
        while size < P:
            size *= 2
        padded = np.pad(nodes, (0, size - P)), np.pad(columns, ((0, size - P), (0, 0)))
        noise = Noise.draw(key, (size, self.draws, m))
        parents, log_guide = _propose(
            self.guides, noise, *map(jnp.asarray, padded), jnp.asarray(self.terms.required)
        )
        return np.asarray(parents)[:P], np.asarray(log_guide, dtype=float)[:P]


def host_generator(key: PRNGKeyArray) -> np.random.Generator:
    """A NumPy generator that the key determines.

    Examples
    --------
    >>> one, two = (host_generator(jax.random.key(0)).random() for _ in range(2))
    >>> one == two
    True
    """
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def summarise(
    log_weight: Float[np.ndarray, "P S"],
    parents: Bool[np.ndarray, "P S m"],
    rng: np.random.Generator,
) -> Estimates:
    """The evidence, edges and a draw from weighted parent sets.

    Examples
    --------
    >>> sets = np.array([[[True, False], [False, False]]])
    >>> estimate = summarise(np.log([[3.0, 1.0]]), sets, np.random.default_rng(0))
    >>> float(np.exp(estimate.log_evidence[0]).round(6)), estimate.edges.tolist()
    (2.0, [[0.75, 0.0]])
    """
    top = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - top)
    total = weight.sum(axis=1, keepdims=True)
    log_evidence = (top + np.log(total / weight.shape[1]))[:, 0]
    weight /= total
    edges = np.einsum("ps,psm->pm", weight, parents)
    level = rng.random((len(weight), 1))
    chosen = (weight.cumsum(axis=1) < level).sum(axis=1).clip(max=weight.shape[1] - 1)
    drawn = parents[np.arange(len(weight)), chosen]
    return Estimates(log_evidence, edges, drawn, 1 / (weight**2).sum(axis=1))


@eqx.filter_jit
def _propose(guides, noise, nodes, columns, required):
    def single(noise, node, column):
        drawn = draw_parents(of_node(guides, node), noise, column, required[node])
        return drawn.parents, drawn.log_guide

    return jax.vmap(single)(noise, nodes, columns)
