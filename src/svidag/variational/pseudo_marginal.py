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

from svidag.variational.evidence_estimate import Estimates, host_generator
from svidag.variational.guide_training import columns_of, places_of
from svidag.variational.tight_bound import EdgeTerms

__all__ = ["Chains", "Move", "PseudoMarginal", "feasible", "relocate_or_swap"]


Estimator = Callable[[PRNGKeyArray, np.ndarray, np.ndarray], Estimates]
"""(key, nodes [P], possible parents [P, m]) → one independent unbiased estimate for each pair."""

Proposal = Callable[[np.ndarray, np.random.Generator], np.ndarray]
"""(replicas [K, levels, m], generator) → proposed replicas."""


class Chains(NamedTuple):
    """K chains. Row j of a chain's matrices belongs to node j: its column of A.

    Attributes
    ----------
    replicas
        Orders, causes first; the last of a chain's levels is its own, the others only propose.
    log_evidence
        log p̂_j of the accepted estimate of every node.
    log_known
        log g_j, by which orders are proposed; zero for proposals that know nothing.
    edges
        ``[k, j, i]``: weight of i → j among the accepted draws.
    parents
        ``[k, j, i]``: the graph chosen by weight.
    """

    replicas: Int[np.ndarray, "K levels m"]
    log_evidence: Float[np.ndarray, "K m"]
    log_known: Float[np.ndarray, "K m"]
    edges: Float[np.ndarray, "K m m"]
    parents: Bool[np.ndarray, "K m m"]

    @property
    def orders(self) -> Int[np.ndarray, "K m"]:
        """The order of each chain."""
        return self.replicas[:, -1]


class Move(NamedTuple):
    """What a step did: which chains accepted."""

    accepted: Bool[np.ndarray, " K"]


class PseudoMarginal:
    """Steps of K independent chains, estimated together.

    Parameters
    ----------
    estimator
        Estimates p(D_j | predecessors).
    terms
        Which pairs are allowed and required.
    proposal
        Proposes the next orders: symmetric, or reversible for the weights `log_known`.
    """

    def __init__(
        self, estimator: Estimator, terms: EdgeTerms, proposal: Proposal | None = None
    ) -> None:
        self.estimator = estimator
        self.terms = terms
        self.proposal = relocate_or_swap if proposal is None else proposal

    def start(self, key: PRNGKeyArray, replicas: Int[np.ndarray, "K levels m"]) -> Chains:
        """Chains at given feasible orders, with every node estimated."""
        orders = replicas[:, -1]
        K, m = orders.shape
        columns = columns_of(orders, self.terms.allowed)
        drawn = self.estimator(key, np.tile(np.arange(m), K), columns.reshape(-1, m))
        return Chains(
            replicas,
            drawn.log_evidence.reshape(K, m),
            drawn.log_known.reshape(K, m),
            drawn.edges.reshape(K, m, m),
            drawn.parents.reshape(K, m, m),
        )

    def step(self, chains: Chains, key: PRNGKeyArray) -> tuple[Chains, Move]:
        """One move of every chain."""
        key, key_move = jax.random.split(key)
        rng = host_generator(key_move)
        replicas = self.proposal(chains.replicas, rng)
        orders = replicas[:, -1]
        possible = feasible(orders, self.terms.required)
        columns = columns_of(orders, self.terms.allowed)
        changed = (columns != columns_of(chains.orders, self.terms.allowed)).any(axis=2)
        chain, node = np.nonzero(changed & possible[:, None])
        moved = Chains(replicas, *(array.copy() for array in chains[1:]))
        if len(chain):
            for old, new in zip(
                moved[1:], self.estimator(key, node, columns[chain, node]), strict=True
            ):
                old[chain, node] = new
        ratio = moved.log_evidence - moved.log_known - chains.log_evidence + chains.log_known
        gain = ratio.sum(axis=1)
        accepted = possible & (np.log(rng.random(len(orders))) < gain)
        kept = Chains(
            *(
                np.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(moved, chains, strict=True)
            )
        )
        return kept, Move(accepted)


def feasible(
    orders: Int[np.ndarray, "K m"], required: Bool[np.ndarray, "m m"]
) -> Bool[np.ndarray, " K"]:
    """Whether every required cause i of j (``required[j, i]``) comes before its effect.

    Examples
    --------
    >>> feasible(np.array([[0, 1], [1, 0]]), np.array([[False, True], [False, False]])).tolist()
    [False, True]
    """
    place = places_of(orders)
    late = place[:, None, :] > place[:, :, None]  # [k, j, i]: i comes after j
    return ~np.any(late & required, axis=(1, 2))


def relocate_or_swap(
    replicas: Int[np.ndarray, "K levels m"], rng: np.random.Generator, swaps: float = 0.5
) -> Int[np.ndarray, "K levels m"]:
    """A symmetric proposal for each order: a swap of neighbours, or a node at a uniform place.

    Examples
    --------
    >>> relocate_or_swap(np.array([[[0, 1, 2]]]), np.random.default_rng(0), swaps=1.0).tolist()
    [[[0, 2, 1]]]
    """
    orders = replicas.reshape(-1, replicas.shape[2])
    K, m = orders.shape
    swap = rng.random(K) < swaps
    first = rng.integers(m - 1, size=K)
    source = np.where(swap, first, rng.integers(m, size=K))
    target = np.where(swap, first + 1, rng.integers(m, size=K))
    return _moved(orders, source, target).reshape(replicas.shape)


def _moved(orders, source, target):
    """Each order with the node at place `source` taken to place `target`."""
    place = np.arange(orders.shape[1])[None, :]
    source, target = source[:, None], target[:, None]
    forward = (source <= place) & (place < target)
    backward = (target < place) & (place <= source)
    origin = place + forward.astype(int) - backward.astype(int)
    origin = np.where(place == target, source, origin)
    return np.take_along_axis(orders, origin, axis=1)
