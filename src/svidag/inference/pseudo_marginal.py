"""Metropolis moves over orders with estimated evidence: exact for p(r | D), whatever the guide.

Orders are uniform a priori, so the target is p(D | order) = Π_j p(D_j | predecessors of j). A move
takes one node to a place drawn uniformly (*relocation*) or exchanges neighbours. Only nodes whose
predecessors change are estimated anew, and the ratio of the products of estimates takes the place
of the exact ratio. The estimates are unbiased and an accepted one is kept until its node moves, so
the chain targets the exact posterior of the order (Andrieu and Roberts 2009), and the graph chosen
by weight among the draws is a draw from p(A | order, D).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from svidag.inference.conditional import columns_of, places_of
from svidag.inference.estimate import Estimates, host_generator
from svidag.tight_bound import EdgeTerms

__all__ = ["Chains", "Move", "PseudoMarginal", "propose"]


Estimator = Callable[[PRNGKeyArray, np.ndarray, np.ndarray], Estimates]
"""(key, nodes [P], possible parents [P, m]) → one independent unbiased estimate for each pair."""


class Chains(NamedTuple):
    """K chains. Row j of a chain's matrices belongs to node j: its column of A.

    Attributes
    ----------
    orders
        Causes first.
    log_evidence
        log p̂_j of the accepted estimate of every node.
    edges
        ``[k, j, i]``: weight of i → j among the accepted draws.
    parents
        ``[k, j, i]``: the graph chosen by weight.
    """

    orders: Int[np.ndarray, "K m"]
    log_evidence: Float[np.ndarray, "K m"]
    edges: Float[np.ndarray, "K m m"]
    parents: Bool[np.ndarray, "K m m"]


class Move(NamedTuple):
    """What a step did: accepted chains, and how many pairs were estimated."""

    accepted: Bool[np.ndarray, " K"]
    estimated: int


class PseudoMarginal:
    """Steps of K independent chains, estimated together.

    Parameters
    ----------
    estimator
        Estimates p(D_j | predecessors).
    terms
        Which pairs are allowed and required.
    swaps
        The share of moves that exchange neighbours.
    """

    def __init__(self, estimator: Estimator, terms: EdgeTerms, *, swaps: float = 0.5) -> None:
        self.estimator = estimator
        self.terms = terms
        self.swaps = swaps

    def start(self, key: PRNGKeyArray, orders: Int[np.ndarray, "K m"]) -> Chains:
        """Chains at given feasible orders, with every node estimated."""
        K, m = orders.shape
        columns = columns_of(orders, self.terms.allowed)
        drawn = self.estimator(key, np.tile(np.arange(m), K), columns.reshape(-1, m))
        return Chains(
            orders,
            drawn.log_evidence.reshape(K, m),
            drawn.edges.reshape(K, m, m),
            drawn.parents.reshape(K, m, m),
        )

    def step(self, chains: Chains, key: PRNGKeyArray, *, power: float = 1.0) -> tuple[Chains, Move]:
        """One move of every chain; a power below one flattens the target, for burn-in only."""
        rng = host_generator(key)
        orders = propose(rng, chains.orders, self.swaps)
        feasible = self.feasible(orders)
        columns = columns_of(orders, self.terms.allowed)
        changed = (columns != columns_of(chains.orders, self.terms.allowed)).any(axis=2)
        chain, node = np.nonzero(changed & feasible[:, None])
        log_evidence, edges, parents = (array.copy() for array in chains[1:])
        if len(chain):
            drawn = self.estimator(key, node, columns[chain, node])
            log_evidence[chain, node] = drawn.log_evidence
            edges[chain, node] = drawn.edges
            parents[chain, node] = drawn.parents
        gain = power * (log_evidence - chains.log_evidence).sum(axis=1)
        accepted = feasible & (np.log(rng.random(len(orders))) < gain)
        moved = Chains(orders, log_evidence, edges, parents)
        kept = Chains(
            *(
                np.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(moved, chains, strict=True)
            )
        )
        return kept, Move(accepted, len(chain))

    def feasible(self, orders: Int[np.ndarray, "K m"]) -> Bool[np.ndarray, " K"]:
        """Whether every required cause comes before its effect."""
        place = places_of(orders)
        late = place[:, None, :] > place[:, :, None]  # [k, j, i]: i comes after j
        return ~(late & self.terms.required).any(axis=(1, 2))


def propose(
    rng: np.random.Generator, orders: Int[np.ndarray, "K m"], swaps: float
) -> Int[np.ndarray, "K m"]:
    """A symmetric proposal for each order: a swap of neighbours, or a node at a uniform place.

    Examples
    --------
    >>> propose(np.random.default_rng(0), np.array([[0, 1, 2]]), swaps=1.0).tolist()
    [[0, 2, 1]]
    """
    K, m = orders.shape
    swap = rng.random(K) < swaps
    source = rng.integers(m, size=K)
    first = rng.integers(m - 1, size=K)
    source = np.where(swap, first, source)
    target = np.where(swap, first + 1, rng.integers(m, size=K))
    return _moved(orders, source, target)


def _moved(orders, source, target):
    """Each order with the node at place `source` taken to place `target`."""
    place = np.arange(orders.shape[1])[None, :]
    source, target = source[:, None], target[:, None]
    forward = (source <= place) & (place < target)
    backward = (target < place) & (place <= source)
    origin = place + forward.astype(int) - backward.astype(int)
    origin = np.where(place == target, source, origin)
    return np.take_along_axis(orders, origin, axis=1)
