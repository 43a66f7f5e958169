"""Where tables need more: sets that carry weight but were only sketched, parents screened out.

Both are read off orders and graphs drawn under the tables as they stand, so effort goes where the
posterior is.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from svidag.mechanisms.local import FamilyScores
from svidag.prior import EdgePrior
from svidag.scores.tables import ScoreTables, subset_sums

_OFTEN = 4  # a node's commonest parent sets, to which outside parents are tried


def weighty(
    tables: ScoreTables, orders: Int[np.ndarray, "S m"], *, margin: float
) -> list[Int[np.ndarray, " _"]]:
    """For each node, the masks only sketched that carry weight given one of the orders.

    A set S carries weight given predecessors U ⊇ S if w_j(S) > log Σ_{T⊆U} exp w_j(T) − margin.
    """
    found = []
    for j, node in enumerate(tables.nodes):
        weights, sums = tables.weights[tables.cells(j)], tables.sums[tables.cells(j)]
        open_sets = np.flatnonzero(np.isfinite(weights) & ~np.isfinite(node.exact))
        wanted = np.zeros(len(open_sets), dtype=bool)
        for before in np.unique(tables.predecessors(j, orders)):
            inside = open_sets & ~before == 0
            wanted |= inside & (weights[open_sets] > sums[before] - margin)
        found.append(open_sets[wanted])
    return found


def sketched_share(tables: ScoreTables, orders: Int[np.ndarray, "S m"]) -> float:
    """The mean probability over orders that a node's parent set was only sketched; worst node."""
    shares = []
    for j, node in enumerate(tables.nodes):
        cells = tables.cells(j)
        known = subset_sums(node.exact)
        before = tables.predecessors(j, orders)
        shares.append(-np.expm1(known[before] - tables.sums[cells][before]).mean())
    return float(max(shares))


def neighbours(
    tables: ScoreTables, graphs: UInt8[np.ndarray, "S m m"], orders: Int[np.ndarray, "S m"]
) -> list[Int[np.ndarray, " _"]]:
    """For each node, the masks not exact that are one candidate away from a drawn parent set.

    Required parents stay: a set without one has no weight, whatever its score.
    """
    found = []
    for j, node in enumerate(tables.nodes):
        before = tables.predecessors(j, orders)
        drawn = graphs[:, :, j].astype(np.int64) @ tables.bits[:, j]
        pairs = np.unique(np.stack([drawn, before], axis=1), axis=0)
        bits = 1 << np.arange(len(node.candidates))
        near = pairs[:, :1] ^ bits
        # Required parents are in every set that has a weight, and the least has no others.
        scored = np.flatnonzero(np.isfinite(tables.weights[tables.cells(j)]))
        needed = np.bitwise_and.reduce(scored) if len(scored) else 0
        fits = (near & ~pairs[:, 1:] == 0) & (near & needed == needed)
        masks = np.unique(np.concatenate([near[fits], pairs[:, 0]]))
        found.append(masks[~np.isfinite(node.exact[masks])])
    return found


def pressing(
    mechanism: FamilyScores,
    prior: EdgePrior,
    tables: ScoreTables,
    graphs: UInt8[np.ndarray, "S m m"],
    orders: Int[np.ndarray, "S m"],
    *,
    gain: float,
    among: Bool[np.ndarray, "m m"] | None = None,
) -> Float[np.ndarray, "m m"]:
    """What adding i, no candidate of j, to j's parents in a drawn graph gains, if above `gain`.

    The best over the parent sets that j has most often among the draws, in nats with the prior's
    odds; −∞ where nothing reaches `gain`. Only variables that precede j in a draw with that set are
    tried, and of these only pairs in `among`, if given.
    """
    tried = prior.free & (tables.bits == 0)
    nodes, sets, added = _outside(tried if among is None else tried & among, graphs, orders)
    extended = sets.copy()
    extended[np.arange(len(nodes)), added] = True
    difference = mechanism.family_scores(nodes, extended) + prior.logit[added, nodes]
    difference -= mechanism.family_scores(nodes, sets)
    best = np.full(prior.allowed.shape, -np.inf)
    np.maximum.at(best, (added, nodes), difference)
    return np.where(best > gain, best, -np.inf)


def _outside(tried, graphs, orders):
    """Each node with its commonest parent sets among the draws and the predecessors to be tried."""
    rank = np.argsort(orders, axis=1)
    nodes, sets, added = [], [], []
    for j in range(len(tried)):
        before = (rank < rank[:, j, None]) & tried[:, j]
        distinct, which, count = np.unique(
            graphs[:, :, j].astype(bool), axis=0, return_inverse=True, return_counts=True
        )
        for s in np.argsort(-count, kind="stable")[:_OFTEN]:
            i = np.flatnonzero(before[which.reshape(-1) == s].any(axis=0))
            nodes.append(np.full(len(i), j))
            sets.append(np.repeat(distinct[s : s + 1], len(i), axis=0))
            added.append(i)
    return np.concatenate(nodes), np.concatenate(sets), np.concatenate(added)
