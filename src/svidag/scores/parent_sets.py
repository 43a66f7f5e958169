"""Scored parent sets of every node, and the tables that are made of them.

Given predecessors U of node j, a parent set S ⊆ U has the conditional probability, its *share*,

    P(S | U) ∝ exp w_j(S).

The collection grows from sets with a large share: their neighbours, which differ by one variable,
are scored next. Where the mechanism is expensive, a cheaper approximation (the *sketch*) scores a
set first, and the mechanism itself only where the share is large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8, UInt64

from svidag.mechanisms.local import LocalScores, SubsetScores
from svidag.prior import EdgePrior
from svidag.scores.containment import add_shares, log_sums, members, words
from svidag.scores.tables import (
    MAX_TABULATED,
    MOST_CANDIDATES,
    NodeTable,
    ScoreTables,
    sum_absent,
)

FEW_CANDIDATES = 16  # candidates to which a table is restricted if the others hold a small share
MIN_CANDIDATES = 12  # candidates of a table in any case, as far as there are so many
LEAST_CANDIDATES = 5  # the same where a table may have fewer
MAX_SHARE_PER_VARIABLE = 0.01  # mean share of the sets with any one variable that is left out


@dataclass(frozen=True, eq=False)
class ParentSets:
    """Parent sets with their nodes and weights, each pair once, sorted by node.

    Attributes
    ----------
    m
        The number of variables.
    nodes
        The node of each set.
    packed
        The sets, eight variables to a byte.
    exact, sketch
        w_j(S) by the mechanism and by its approximation; NaN where it was not computed.
    expanded
        Whether the set's neighbours have been scored.

    Examples
    --------
    >>> one = ParentSets.of(np.array([1, 1]), np.eye(2, dtype=bool)[[0, 0]], exact=np.ones(2))
    >>> len(one), one.parents().tolist(), one.weights.tolist()
    (1, [[True, False]], [1.0])
    """

    m: int
    nodes: Int[np.ndarray, " T"]
    packed: UInt8[np.ndarray, "T bytes"]
    exact: Float[np.ndarray, " T"]
    sketch: Float[np.ndarray, " T"]
    expanded: Bool[np.ndarray, " T"]

    @classmethod
    def of(
        cls,
        nodes: Int[np.ndarray, " T"],
        parents: Bool[np.ndarray, "T m"],
        *,
        exact: Float[np.ndarray, " T"] | None = None,
        sketch: Float[np.ndarray, " T"] | None = None,
    ) -> ParentSets:
        """Sort, and count each pair of a node and a set once."""
        unknown = np.full(len(nodes), np.nan)
        return cls(
            parents.shape[1],
            nodes,
            np.packbits(parents, axis=1),
            unknown if exact is None else exact,
            unknown if sketch is None else sketch,
            np.zeros(len(nodes), dtype=bool),
        )._distinct()

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def weights(self) -> Float[np.ndarray, " T"]:
        """Exact weights where known, elsewhere the sketch, corrected for its bias.

        An approximation with fewer units fits large sets worse, by an amount that grows with their
        size. The slope is estimated from the sets of a node whose weight is known both ways.
        """
        if not np.isnan(self.exact).any():
            return self.exact
        size = np.bitwise_count(self.packed).sum(axis=1).astype(float)
        both = np.isfinite(self.exact) & np.isfinite(self.sketch)
        gap = np.where(both, size * (self.exact - self.sketch), 0.0)
        moment = np.bincount(self.nodes, np.where(both, size**2, 0.0), self.m)
        drift = np.bincount(self.nodes, gap, self.m) / np.maximum(moment, 1.0)
        return np.where(np.isnan(self.exact), self.sketch + drift[self.nodes] * size, self.exact)

    def parents(self, rows: Int[np.ndarray, " R"] | slice = slice(None)) -> Bool[np.ndarray, "R m"]:
        """The sets as rows over all variables."""
        return np.unpackbits(self.packed[rows], axis=1, count=self.m).astype(bool)

    def of_node(self, node: int) -> slice:
        """Where the sets of a node are."""
        return slice(*np.searchsorted(self.nodes, [node, node + 1]))

    def joined(self, other: ParentSets) -> ParentSets:
        """The union of two collections, with every weight that is known in one of them."""
        pairs = ((getattr(self, n), getattr(other, n)) for n in self._arrays())
        return replace(
            self, **dict(zip(self._arrays(), map(np.concatenate, pairs), strict=True))
        )._distinct()

    def rows_of(self, other: ParentSets) -> Int[np.ndarray, " R"]:
        """Where the sets of another collection are in this one; −1 where it lacks them."""
        own, asked = self._keys(), other._keys()
        ranked = np.argsort(own)
        at = ranked[np.minimum(np.searchsorted(own, asked, sorter=ranked), len(own) - 1)]
        return np.where(own[at] == asked, at, -1)

    def chosen(self, rows: np.ndarray) -> ParentSets:
        """Some of the sets."""
        return replace(self, **{name: getattr(self, name)[rows] for name in self._arrays()})

    @staticmethod
    def _arrays() -> tuple[str, ...]:
        return ("nodes", "packed", "exact", "sketch", "expanded")

    def _keys(self) -> np.ndarray:
        """A node and a set as one value that sorts by node."""
        number = self.nodes.astype(">u2").view(np.uint8).reshape(-1, 2)
        both = np.ascontiguousarray(np.hstack([number, self.packed]))
        return both.view(np.dtype((np.void, both.shape[1]))).ravel()

    def _distinct(self) -> ParentSets:
        _, first, which = np.unique(self._keys(), return_index=True, return_inverse=True)
        count = len(first)
        known = {}
        for name in ("exact", "sketch"):
            known[name] = np.full(count, np.nan)
            values = getattr(self, name)
            given = np.isfinite(values)
            known[name][which[given]] = values[given]
        expanded = np.bincount(which[self.expanded], minlength=count) > 0
        return replace(
            self, nodes=self.nodes[first], packed=self.packed[first], expanded=expanded, **known
        )


@dataclass(frozen=True, eq=False)
class Shares:
    """The share P(S | U) of each parent set, over a list of orders.

    Attributes
    ----------
    log_peak
        The logarithm of the largest share; −∞ where no order allows the set.
    mean
        The mean share.
    room
        The variables that precede the node in some order in which the share of the set is large,
        and so could be added to it there.
    """

    log_peak: Float[np.ndarray, " T"]
    mean: Float[np.ndarray, " T"]
    room: Bool[np.ndarray, "T m"]


def compute_shares(
    sets: ParentSets, orders: Int[np.ndarray, "S m"], *, least: float = 5.0
) -> Shares:
    """The share of every set given each of the orders; `room` counts those above exp(−least)."""
    peak, mean = np.full(len(sets), -np.inf), np.zeros(len(sets))
    packed, before = words(sets.packed), _predecessors(orders)
    room = np.zeros_like(packed)
    weights = sets.weights
    for node in range(sets.m):
        rows = sets.of_node(node)
        add_shares(
            packed[rows], weights[rows], before[node], least, peak[rows], mean[rows], room[rows]
        )
    return Shares(peak, mean, members(room, sets.m))


def sum_parent_sets(
    sets: ParentSets,
    orders: Int[np.ndarray, "S m"],
    *,
    among: Bool[np.ndarray, " T"] | None = None,
) -> Float[np.ndarray, "S m"]:
    """F_j(U) of every node given each order, summed over the sets, or those `among` them."""
    packed, before = words(sets.packed), _predecessors(orders)
    weights = sets.weights if among is None else np.where(among, sets.weights, -np.inf)
    sums = np.empty(orders.shape[::-1])
    for node in range(sets.m):
        rows = sets.of_node(node)
        log_sums(packed[rows], weights[rows], before[node], sums[node])
    return np.ascontiguousarray(sums.T)


def log_evidence(
    sets: ParentSets, prior: EdgePrior, orders: Int[np.ndarray, "S m"]
) -> Float[np.ndarray, " S"]:
    """log p(D | order) of each order, summed over the sets of a collection.

    That is Σ_j F_j(U_j) + Σ log(1 − p_ij) over the open pairs that the order allows.
    """
    absent = np.where(prior.free, np.log1p(-prior.marginal), 0.0)
    return sum_parent_sets(sets, orders).sum(axis=1) + sum_absent(absent, orders)


def _predecessors(orders: Int[np.ndarray, "S m"]) -> UInt64[np.ndarray, "m S words"]:
    """The predecessors of every node in every order."""
    rank = np.argsort(orders, axis=1)
    S, m = orders.shape
    packed = np.packbits(rank[None, :, :] < rank.T[:, :, None], axis=2)
    return words(packed.reshape(m * S, -1)).reshape(m, S, -1)


@dataclass(frozen=True, eq=False)
class Weigher:
    """Weights of parent sets, and of all that differ from one by a single variable.

    Attributes
    ----------
    scores
        f_j of the mechanism or its approximation, and its changes by one edge.
    prior
        Open pairs contribute their log odds; required parents are in every set.
    likely
        Which variables may matter to a node beside the given parents; None: any of them.
    """

    scores: LocalScores
    prior: EdgePrior
    likely: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    @property
    def odds(self) -> Float[np.ndarray, "m m"]:
        """The log odds of each pair that is open."""
        return self.prior.free_log_odds

    def weigh(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """w_j(S)."""
        own = (parents * self.odds.T[nodes]).sum(axis=1)
        return self.scores.family_scores(nodes, parents) + own

    def weigh_all_subsets(
        self, node: int, candidates: Int[np.ndarray, " k"]
    ) -> Float[np.ndarray, " subsets"] | None:
        """w_j(S) for every subset of the candidates, by mask; None where that is expensive.

        Sets without a required parent have weight −∞.
        """
        if not isinstance(self.scores, SubsetScores):
            return None
        weights = self.scores.subset_scores(node, candidates)
        odds = self.odds[candidates, node]
        for bit, parent in enumerate(candidates):
            pairs = weights.reshape(-1, 2, 1 << bit)
            pairs[:, 1] += odds[bit]
            if self.prior.required[parent, node]:
                pairs[:, 0] = -np.inf
        if np.delete(self.prior.required[:, node], candidates).any():
            weights[:] = -np.inf
        return weights

    def open_changes(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Bool[np.ndarray, "B m"]:
        """Which variables may be removed, or added with any hope."""
        free = self.prior.free.T[nodes]
        return free if self.likely is None else free & (parents | self.likely(nodes, parents))

    def weigh_changes(
        self,
        nodes: Int[np.ndarray, " B"],
        parents: Bool[np.ndarray, "B m"],
        among: Bool[np.ndarray, "B m"] | None = None,
    ) -> Float[np.ndarray, "B m"]:
        """The change of w_j(S) when each variable is added or removed.

        −∞ for pairs that are not open or not `likely`, and for variables that are not `among` those
        asked for.
        """
        free = self.open_changes(nodes, parents)
        free = free if among is None else free & among
        _, delta = self.scores.flips(nodes, parents, free)
        delta = delta + self.odds.T[nodes]
        return np.where(free, np.where(parents, -delta, delta), -np.inf)


def score_neighbours(
    sets: ParentSets,
    rows: Int[np.ndarray, " R"],
    shares: Shares,
    weigher: Weigher,
    *,
    within: float,
    sketch: bool,
) -> tuple[ParentSets, Float[np.ndarray, " N"]]:
    """New sets that differ by one variable from given sets and could have a large share.

    A neighbour is returned if the estimate of its log share exceeds −within.

    The estimate is the largest share, over orders, of the set it comes from, times the ratio of
    the weights. Returns the neighbours that are not yet in the collection and the logarithms of
    their mean shares: the largest where a set is the neighbour of several, −∞ where the added
    variable does not precede the node in any of the orders.
    """
    nodes, parents, log_share = sets.nodes[rows], sets.parents(rows), shares.log_peak[rows]
    with np.errstate(divide="ignore"):
        less = np.log(shares.mean[rows]) - log_share
    gain = weigher.weigh_changes(nodes, parents) + log_share[:, None]
    source, changed = np.nonzero(gain > -within)
    near = parents[source]
    near[np.arange(len(source)), changed] ^= True
    # Of equal sets the last given counts, so the largest share comes last.
    ranked = np.argsort(gain[source, changed], kind="stable")
    source, near = source[ranked], near[ranked]
    share = gain[source, changed[ranked]]
    own = (sets.sketch if sketch else sets.exact)[rows][source]
    value = own + share - log_share[source]
    known = {"sketch" if sketch else "exact": value}
    found = ParentSets.of(nodes[source], near, **known)
    # The shares are passed in place of weights, so that they are sorted with the sets.
    fits = near[np.arange(len(near)), changed[ranked]] <= shares.room[rows][source, changed[ranked]]
    mean = np.where(fits, share + less[source], np.nan)
    log_mean = ParentSets.of(nodes[source], near, exact=mean).exact
    log_mean = np.where(np.isnan(log_mean), -np.inf, log_mean)
    new = sets.rows_of(found) < 0
    return found.chosen(new), log_mean[new]


def build_node_table(
    parents: Bool[np.ndarray, "T m"],
    weights: Float[np.ndarray, " T"],
    shares: Shares,
    *,
    candidate_share: float,
    omitted_share: tuple[float, float],
    capacity: int,
    spare_share: float | None = None,
    weigh_all: Callable[[Int[np.ndarray, " k"]], Float[np.ndarray, " subsets"] | None],
) -> tuple[NodeTable, float]:
    """A node's table, and the mean share of the sets that it leaves out.

    Variables are ranked by the total peak share of the sets that contain them; ties are decided by
    the number of these sets. Which are candidates, and which sets are listed:

    1. The first `MIN_CANDIDATES` variables are candidates, or down to `LEAST_CANDIDATES` if the
       sets with further variables hold at most `spare_share` on average. More follow while the
       rank exceeds `candidate_share` and the sets with further variables hold more than
       ``omitted_share[0]`` on average.
    2. If that gives more than `FEW_CANDIDATES`, the first of them are used if the sets with
       others hold at most ``omitted_share[1]`` together, and at most `MAX_SHARE_PER_VARIABLE` for
       each variable.
    3. If there are more than `MAX_TABULATED` even so, up to `MOST_CANDIDATES` variables are
       candidates, and the `capacity` sets with the largest shares are listed. Of the sets that
       need more than the first `MAX_TABULATED` candidates, those with the smallest shares are left
       out, up to ``omitted_share[0]``.

    If `weigh_all` returns the weights of all subsets of the first `MAX_TABULATED` candidates, all
    of them are listed: chains cannot move through orders whose parent sets are unknown, and each
    of these sets alone may have too small a share to be found.
    """
    used = parents.any(axis=0)
    worth = np.exp(shares.log_peak) @ parents
    rank = np.select(
        [parents.all(axis=0), used], [np.inf, worth + 1e-9 * parents.sum(axis=0)], -1.0
    )
    ranked = np.argsort(-rank, kind="stable")[: int(used.sum())]
    place = np.zeros(parents.shape[1], dtype=np.int64)
    place[ranked] = np.arange(1, len(ranked) + 1)
    depth = (parents * place).max(axis=1)
    beyond = shares.mean.sum() - np.bincount(depth, shares.mean, len(ranked) + 1).cumsum()
    size = min(int((rank > candidate_share).sum()), int((beyond > omitted_share[0]).sum()))
    least = MIN_CANDIDATES
    if spare_share is not None:
        least = int(np.clip((beyond > spare_share).sum(), LEAST_CANDIDATES, MIN_CANDIDATES))
    size = min(len(ranked), max(least, size))
    each = (shares.mean @ parents)[ranked[FEW_CANDIDATES:]].max(initial=0.0)
    if size > FEW_CANDIDATES:
        little = beyond[FEW_CANDIDATES] <= omitted_share[1] and each <= MAX_SHARE_PER_VARIABLE
        size = FEW_CANDIDATES if little else size
    kept = depth <= size
    if size > MAX_TABULATED:
        size = min(len(ranked), MOST_CANDIDATES)
        kept = depth <= size
        # Every order allows the smallest set, so it is never left out.
        best = np.lexsort(
            (-weights, -shares.log_peak, parents.sum(axis=1) > parents.all(axis=0).sum())
        )
        kept[best[kept[best].cumsum() > capacity]] = False
        # Sums over listed sets are slow, so those with the smallest shares are left out.
        least = np.argsort(np.where(depth > MAX_TABULATED, shares.mean, np.inf), kind="stable")
        lost = (
            np.where(kept, 0.0, shares.mean).sum()
            + np.where(kept, shares.mean, 0.0)[least].cumsum()
        )
        kept[least[(lost <= omitted_share[0]) & (depth[least] > MAX_TABULATED)]] = False
    candidates, lost = ranked[:size], float(shares.mean[~kept].sum())
    masks, weights = parents[kept][:, candidates] @ (1 << np.arange(size)), weights[kept]
    complete = weigh_all(candidates[:MAX_TABULATED])
    if complete is not None:
        others, known = masks >= len(complete), np.flatnonzero(complete > -np.inf)
        masks = np.concatenate([known, masks[others]])
        weights = np.concatenate([complete[known], weights[others]])
    return NodeTable(candidates, masks, weights), lost


def build_tables(
    sets: ParentSets,
    shares: Shares,
    weigher: Weigher,
    *,
    candidate_share: float,
    omitted_share: tuple[float, float],
    capacity: int,
    spare_share: float | None = None,
) -> tuple[ScoreTables, Float[np.ndarray, " m"]]:
    """Tables of a collection, and for each node the mean share of the sets left out."""
    nodes, left_out = [], []
    weights = sets.weights
    for j in range(sets.m):
        rows = sets.of_node(j)
        table, lost = build_node_table(
            sets.parents(rows),
            weights[rows],
            Shares(shares.log_peak[rows], shares.mean[rows], shares.room[rows]),
            candidate_share=candidate_share,
            omitted_share=omitted_share,
            capacity=capacity,
            spare_share=spare_share,
            weigh_all=partial(weigher.weigh_all_subsets, j),
        )
        nodes.append(table)
        left_out.append(lost)
    return ScoreTables.of(nodes, weigher.prior), np.array(left_out)


def tabulate_all_sets(weigher: Weigher) -> ScoreTables | None:
    """Tables of every parent set that the prior allows; None where they are too many to score."""
    prior = weigher.prior
    if not isinstance(weigher.scores, SubsetScores) or prior.allowed.sum(0).max() > MAX_TABULATED:
        return None
    nodes = []
    for j in range(len(prior.names)):
        candidates = np.flatnonzero(prior.allowed[:, j])
        weights = weigher.weigh_all_subsets(j, candidates)
        assert weights is not None
        masks = np.flatnonzero(weights > -np.inf)
        nodes.append(NodeTable(candidates, masks, weights[masks]))
    return ScoreTables.of(nodes, prior)


def holds_all_sets(tables: ScoreTables, prior: EdgePrior) -> bool:
    """Whether tables have every parent set that the prior allows."""
    sizes = np.array([len(node.masks) for node in tables.nodes], dtype=float)
    return bool((sizes == 2.0 ** prior.free.sum(axis=0)).all())
