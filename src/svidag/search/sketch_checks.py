"""What an approximation may have underrated, scored by the mechanism itself.

With many parents, an approximation with few units may underrate a set by hundreds of nats. Growth
then never adds it, and chains never reach the orders that need it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int, UInt8

from svidag.graph.dag import ancestors, topological_order
from svidag.scores import ParentSets, Shares, Weigher

ADDITIONS_WITHIN = 2.0  # shares above exp(−2) are large where additions are checked
REMOVALS_WITHIN = 4.0  # the same for removals, of which there are fewer
MANY_PARENTS = 3  # parents from which the approximation is not trusted
NOT_IMPROBABLE = 12.0  # nats that an addition to fewer parents may lose by the approximation


def check_neighbours(
    sets: ParentSets, shares: Shares, mechanism: Weigher, sketch: Weigher
) -> tuple[ParentSets, int, float]:
    """Score by the mechanism what is one parent away from sets with a large share.

    Of large sets all neighbours are scored; of small ones the additions that the approximation does
    not find quite improbable. Returns the collection, how many sets were scored, and their share,
    for the worst node.
    """
    size = np.bitwise_count(sets.packed).sum(axis=1)
    rows = np.flatnonzero((shares.log_peak > -ADDITIONS_WITHIN) & (size >= MANY_PARENTS))
    added = shares.room[rows] & ~sets.parents(rows)
    fewer = np.flatnonzero((shares.log_peak > -REMOVALS_WITHIN) & (size >= MANY_PARENTS))
    small = np.flatnonzero((shares.log_peak > -ADDITIONS_WITHIN) & (size < MANY_PARENTS))
    open_to = shares.room[small] & ~sets.parents(small)
    change = sketch.weigh_changes(sets.nodes[small], sets.parents(small), open_to)
    rows = np.concatenate([rows, fewer, small])
    changed = np.concatenate([added, sets.parents(fewer), change > -NOT_IMPROBABLE])
    nodes, parents = sets.nodes[rows], sets.parents(rows)
    source, flipped = np.nonzero(changed & mechanism.open_changes(nodes, parents))
    near = parents[source]
    near[np.arange(len(source)), flipped] ^= True
    found = score_both(unscored(ParentSets.of(nodes[source], near), sets), mechanism, sketch)
    best = np.full(sets.m, -np.inf)
    np.maximum.at(best, nodes, sets.weights[rows])
    share = np.bincount(found.nodes, np.exp(np.minimum(found.exact - best[found.nodes], 0)), sets.m)
    return sets.joined(found), len(found), float(share.max())


def unscored(found: ParentSets, sets: ParentSets) -> ParentSets:
    """Those of the sets found that the mechanism has not scored in a collection."""
    known = sets.rows_of(found)
    return found.chosen(np.flatnonzero((known < 0) | np.isnan(sets.exact[known])))


def score_both(sets: ParentSets, mechanism: Weigher, sketch: Weigher) -> ParentSets:
    """The sets with weights by the mechanism and by its approximation."""
    exact = mechanism.weigh(sets.nodes, sets.parents())
    return replace(sets, exact=exact, sketch=sketch.weigh(sets.nodes, sets.parents()))


@dataclass(frozen=True, eq=False)
class Reversals:
    """What reversing single arrows of a graph brought.

    Attributes
    ----------
    nodes, parents
        The families of the two nodes of each reversed arrow, both in turn.
    gain
        By how much the best reversal raises the log posterior; negative if it lowers it, −∞ if
        there was nothing to reverse.
    order
        An order of the graph with the best reversal.
    """

    nodes: Int[np.ndarray, " R"]
    parents: Bool[np.ndarray, "R m"]
    gain: float
    order: Int[np.ndarray, " m"]


def reverse_arrows(graph: UInt8[np.ndarray, "m m"], mechanism: Weigher) -> Reversals:
    """Reverse each arrow i → j, and choose all parents of i and j anew by the mechanism.

    Both nodes first lose their parents. Those of i are then chosen among its non-descendants, with
    j one of them, and after that those of j among its own: the proposal of Grzegorczyk and Husmeier
    (2008), with a local search in place of a draw. It starts from the parents of both nodes
    together and takes the best single change while there is one. Arrows are reversed if i and j
    have `MANY_PARENTS` or more.
    """
    prior = mechanism.prior
    many = graph.sum(axis=0) >= MANY_PARENTS
    asked = graph.astype(bool) & many[:, None] & many & prior.free & prior.free.T
    causes, effects = np.nonzero(asked)
    R = np.arange(len(causes))
    orphaned = np.repeat(graph[None].astype(bool), len(R), axis=0)
    both = orphaned[R, :, causes] | orphaned[R, :, effects]
    orphaned[R, :, causes] = orphaned[R, :, effects] = False
    changed, possible = orphaned.copy(), np.ones(len(R), dtype=bool)
    for node, other in ((causes, effects), (effects, causes)):
        allowed = ~ancestors(changed)[R, node] if len(R) else both
        allowed[R, node] = False
        required = prior.required.T[node]
        possible &= ~(required & ~allowed).any(axis=1)
        start = (both & allowed & prior.free.T[node]) | required
        forced = np.zeros_like(start)
        if node is causes:
            start[R, other] = forced[R, other] = True
        changed[R, :, node] = climb(mechanism, node, start, allowed & ~forced)
    nodes = np.stack([causes, effects], axis=1).ravel()
    parents = changed[R.repeat(2), :, nodes]
    new = mechanism.weigh(nodes, parents).reshape(-1, 2).sum(axis=1)
    old = mechanism.weigh(nodes, graph.T[nodes].astype(bool)).reshape(-1, 2).sum(axis=1)
    gains = np.where(possible, new - old, -np.inf)
    best = changed[gains.argmax()] if possible.any() else graph
    return Reversals(nodes, parents, float(gains.max(initial=-np.inf)), topological_order(best))


def climb(
    mechanism: Weigher,
    nodes: Int[np.ndarray, " R"],
    parents: Bool[np.ndarray, "R m"],
    allowed: Bool[np.ndarray, "R m"],
) -> Bool[np.ndarray, "R m"]:
    """Parent sets from which no single addition or removal of an allowed variable gains."""
    parents = parents.copy()
    active = np.arange(len(nodes))
    while len(active):
        change = mechanism.weigh_changes(nodes[active], parents[active], allowed[active])
        best = change.argmax(axis=1)
        active, best = (part[change.max(axis=1) > 0] for part in (active, best))
        parents[active, best] ^= True
    return parents


def best_graph(sets: ParentSets, order: Int[np.ndarray, " m"]) -> UInt8[np.ndarray, "m m"]:
    """The graph of the best parent sets that an order allows."""
    graph = np.zeros((sets.m, sets.m), dtype=np.uint8)
    rank, weights = np.argsort(order), sets.weights
    for j in range(sets.m):
        rows = sets.of_node(j)
        parents = sets.parents(rows)
        fits = ~parents[:, rank > rank[j]].any(axis=1)
        graph[:, j] = parents[np.where(fits, weights[rows], -np.inf).argmax()]
    return graph
