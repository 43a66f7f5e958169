"""Metropolis moves over orders with estimated evidence: exact for p(r | D), whatever the guide.

Orders are uniform a priori, so the target is p(D | order) = Π_j p(D_j | predecessors of j). A move
takes one node to a place drawn uniformly (*relocation*) or exchanges neighbours. Only nodes whose
predecessors change are estimated anew, and the ratio of the products of estimates takes the place
of the exact ratio. Or the proposal is itself a chain, reversible for weights Π_j g_j; then the
ratio of p̂/g decides, and one estimate serves many moves. Such a chain may carry replicas along that
help it to cross between modes: they belong to the state, and a rejected move takes them back too.

The estimates are unbiased and an accepted one is kept until its node moves, so the chain targets
the exact posterior of the order (Andrieu and Roberts 2009), and the graph chosen by weight among
the draws is a draw from p(A | order, D).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from svidag.orders.permutation import feasible, list_columns, possible_edges, relocate_or_swap
from svidag.prior import EdgePrior
from svidag.run.streams import host_generator
from svidag.variational.evidence_estimate import EvidenceEstimates

__all__ = ["EstimatedChains", "MoveInfo", "PseudoMarginal"]


Estimator = Callable[[PRNGKeyArray, np.ndarray, np.ndarray], EvidenceEstimates]
"""(key, nodes [P], possible parents [P, m]) → one independent unbiased estimate for each pair."""

Proposal = Callable[[np.ndarray, np.random.Generator], np.ndarray]
"""(replicas [K, levels, m], generator) → proposed replicas."""


class EstimatedChains(NamedTuple):
    """K chains with the accepted estimates of their nodes.

    Attributes
    ----------
    replicas
        Orders, causes first; the last of a chain's levels is its own, the others only propose.
    log_evidence
        log p̂_j of the accepted estimate of every node.
    log_known
        log g_j, by which orders are proposed; zero for proposals that know nothing.
    edges
        ``[k, i, j]``: weight of i → j among the accepted draws.
    graphs
        ``[k, i, j]``: the graph chosen by weight.
    """

    replicas: Int[np.ndarray, "K levels m"]
    log_evidence: Float[np.ndarray, "K m"]
    log_known: Float[np.ndarray, "K m"]
    edges: Float[np.ndarray, "K m m"]
    graphs: Bool[np.ndarray, "K m m"]

    @property
    def orders(self) -> Int[np.ndarray, "K m"]:
        """The order of each chain."""
        return self.replicas[:, -1]

    def with_estimates(
        self,
        replicas: Int[np.ndarray, "K levels m"],
        chain: Int[np.ndarray, " P"],
        node: Int[np.ndarray, " P"],
        estimates: EvidenceEstimates,
    ) -> EstimatedChains:
        """Chains at other orders, with new estimates for some nodes of some chains."""
        moved = EstimatedChains(replicas, *(array.copy() for array in self[1:]))
        moved.log_evidence[chain, node] = estimates.log_evidence
        moved.log_known[chain, node] = estimates.log_known
        moved.edges[chain, :, node] = estimates.edges
        moved.graphs[chain, :, node] = estimates.parents
        return moved


class MoveInfo(NamedTuple):
    """What a step did: which chains accepted."""

    accepted: Bool[np.ndarray, " K"]


class PseudoMarginal:
    """Steps of K independent chains, estimated together.

    Parameters
    ----------
    estimator
        Estimates p(D_j | predecessors).
    prior
        Which pairs are allowed and required.
    proposal
        Proposes the next orders: symmetric, or reversible for the weights `log_known`.
    """

    def __init__(
        self, estimator: Estimator, prior: EdgePrior, proposal: Proposal | None = None
    ) -> None:
        self.estimator = estimator
        self.prior = prior
        self.proposal = relocate_or_swap if proposal is None else proposal

    def start(self, key: PRNGKeyArray, replicas: Int[np.ndarray, "K levels m"]) -> EstimatedChains:
        """Chains at given feasible orders, with every node estimated."""
        possible = possible_edges(replicas[:, -1], self.prior.allowed)
        K, m, _ = possible.shape
        estimates = self.estimator(key, *list_columns(possible))
        return EstimatedChains(
            replicas,
            estimates.log_evidence.reshape(K, m),
            estimates.log_known.reshape(K, m),
            estimates.edges.reshape(K, m, m).swapaxes(1, 2),
            estimates.parents.reshape(K, m, m).swapaxes(1, 2),
        )

    def step(self, chains: EstimatedChains, key: PRNGKeyArray) -> tuple[EstimatedChains, MoveInfo]:
        """One move of every chain."""
        key, key_move = jax.random.split(key)
        rng = host_generator(key_move)
        replicas = self.proposal(chains.replicas, rng)
        orders = replicas[:, -1]
        respected = feasible(orders, self.prior.required)
        possible = possible_edges(orders, self.prior.allowed)
        changed = (possible != possible_edges(chains.orders, self.prior.allowed)).any(axis=1)
        chain, node = np.nonzero(changed & respected[:, None])
        moved = chains._replace(replicas=replicas)
        if len(chain):
            estimates = self.estimator(key, node, possible[chain, :, node])
            moved = chains.with_estimates(replicas, chain, node, estimates)
        ratio = moved.log_evidence - moved.log_known - chains.log_evidence + chains.log_known
        accepted = respected & (np.log(rng.random(len(orders))) < ratio.sum(axis=1))
        chosen = EstimatedChains(
            *(
                np.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(moved, chains, strict=True)
            )
        )
        return chosen, MoveInfo(accepted)
