"""Scored parent sets of every node, over all variables, and the tables that are made of them.

A collection grows where orders ask: given predecessors U of j, the sets within U share

    P(S | U) ∝ exp w_j(S).

A set that holds a share worth mentioning has its neighbours looked at, which differ from it by one
variable. Where the mechanism is expensive a cheaper stand-in scores first (the *sketch*), and the
mechanism itself wherever a set holds a share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from svidag.mechanisms.local import LocalScores, SubsetScores
from svidag.prior import EdgePrior
from svidag.scores.tables import MOST_CANDIDATES, MOST_LAID_OUT, NodeTable, ScoreTables

FEW = 12  # candidates whose sums are quick to look up
EACH = 0.01  # what the sets with one of the variables that are left out may hold, on average
_CELLS_AT_ONCE = 2**24  # pairs of a set and an order looked at together


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
        w_j(S) by the mechanism and by its stand-in; not a number where that was not computed.
    expanded
        Whether the set's neighbours have been looked at.

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
        """Exact weights, elsewhere the sketch with its drift made good.

        A stand-in with fewer units fits large sets worse, by an amount that grows with their size;
        the sets of a node that are known both ways tell the slope.
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
        """The sets of both; a weight that either knows is known."""
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
    """What share of its node each set holds over orders.

    Attributes
    ----------
    log_peak
        The logarithm of the largest share; −∞ where the set fits into none of the orders.
    mean
        The mean share.
    room
        The variables that precede the node in some order where the set holds a share worth
        mentioning, and so might join it there.
    """

    log_peak: Float[np.ndarray, " T"]
    mean: Float[np.ndarray, " T"]
    room: Bool[np.ndarray, "T m"]


def shares(sets: ParentSets, orders: Int[np.ndarray, "S m"], *, least: float = 5.0) -> Shares:
    """The share of every set given each of the orders; above exp(−least) is worth mentioning."""
    rank = np.argsort(orders, axis=1)
    peak, mean = np.full(len(sets), -np.inf), np.zeros(len(sets))
    room = np.zeros((len(sets), sets.m), dtype=bool)
    weights = sets.weights
    for node in range(sets.m):
        rows = sets.of_node(node)
        before, times = np.unique(rank < rank[:, node, None], axis=0, return_counts=True)
        for block, portion in _blocks(sets, rows, before, weights):
            peak[rows] = np.maximum(peak[rows], block.max(axis=1))
            mean[rows] += np.exp(block) @ times[portion] / len(orders)
            held = (block > -least).astype(np.float32)
            room[rows] |= held @ before[portion].astype(np.float32) > 0
    return Shares(peak, mean, room)


def evidence(
    sets: ParentSets,
    orders: Int[np.ndarray, "S m"],
    *,
    among: Bool[np.ndarray, " T"] | None = None,
) -> Float[np.ndarray, "S m"]:
    """F_j(U) of every node given each order, summed over the sets, or those `among` them."""
    rank = np.argsort(orders, axis=1)
    sums = np.empty(orders.shape)
    weights = sets.weights if among is None else np.where(among, sets.weights, -np.inf)
    for node in range(sets.m):
        rows = sets.of_node(node)
        before = rank < rank[:, node, None]
        inside = _inside(sets.parents(rows), before)
        held = np.where(inside, weights[rows][:, None], -np.inf)
        sums[:, node] = np.logaddexp.reduce(held, axis=0)
    return sums


def _inside(parents: Bool[np.ndarray, "T m"], before: Bool[np.ndarray, "S m"]) -> np.ndarray:
    """Whether each set lies within each set of predecessors."""
    return parents.astype(np.float32) @ (~before).T.astype(np.float32) == 0


def _blocks(sets, rows, before, weights) -> Iterator[tuple[np.ndarray, slice]]:
    """log P(S | U) of a node's sets for some of its sets of predecessors at a time."""
    parents, own = sets.parents(rows), weights[rows]
    step = max(1, _CELLS_AT_ONCE // max(1, len(parents)))
    for start in range(0, len(before), step):
        portion = slice(start, start + step)
        held = np.where(_inside(parents, before[portion]), own[:, None], -np.inf)
        top = held.max(axis=0)
        with np.errstate(divide="ignore"):
            total = top + np.log(np.exp(held - top).sum(axis=0))
        yield held - total, portion


@dataclass(frozen=True, eq=False)
class Weigher:
    """Weights of parent sets, and of all that differ from one by a single variable.

    Attributes
    ----------
    scores
        f_j, of the mechanism or its stand-in, with its changes by one edge.
    prior
        Open pairs contribute their log odds; required parents are in every set.
    """

    scores: LocalScores
    prior: EdgePrior

    @property
    def odds(self) -> Float[np.ndarray, "m m"]:
        """The log odds of each pair that is open."""
        return np.where(self.prior.free, self.prior.logit, 0.0)

    def weigh(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """w_j(S)."""
        own = (parents * self.odds.T[nodes]).sum(axis=1)
        return self.scores.family_scores(nodes, parents) + own

    def every(
        self, node: int, candidates: Int[np.ndarray, " k"]
    ) -> Float[np.ndarray, " subsets"] | None:
        """w_j(S) for every subset of the candidates, by mask; None where that takes long.

        Sets without a required parent weigh nothing.
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

    def changes(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, "B m"]:
        """What adding or removing each variable adds to w_j(S); −∞ where the pair is not open."""
        free = self.prior.free.T[nodes]
        _, delta = self.scores.flips(nodes, parents, free)
        delta = delta + self.odds.T[nodes]
        return np.where(free, np.where(parents, -delta, delta), -np.inf)


def neighbours(
    sets: ParentSets,
    rows: Int[np.ndarray, " R"],
    held: Shares,
    weigher: Weigher,
    *,
    reach: float,
    sketch: bool,
) -> tuple[ParentSets, Float[np.ndarray, " N"]]:
    """Sets one variable away from some sets, as far as their shares could come within reach.

    A neighbour's share is that of the set it comes from, times what the change gains; the largest
    over orders decides. Returns the neighbours that are not yet in the collection with their mean
    shares, as logarithms: the largest where a set is the neighbour of several, −∞ where the added
    variable does not precede the node in the orders at hand.
    """
    nodes, parents, log_share = sets.nodes[rows], sets.parents(rows), held.log_peak[rows]
    with np.errstate(divide="ignore"):
        less = np.log(held.mean[rows]) - log_share
    gain = weigher.changes(nodes, parents) + log_share[:, None]
    source, changed = np.nonzero(gain > -reach)
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
    # The shares travel with the sets through sorting in place of a weight.
    fits = near[np.arange(len(near)), changed[ranked]] <= held.room[rows][source, changed[ranked]]
    mean = np.where(fits, share + less[source], np.nan)
    told = ParentSets.of(nodes[source], near, exact=mean).exact
    told = np.where(np.isnan(told), -np.inf, told)
    new = sets.rows_of(found) < 0
    return found.chosen(new), told[new]


def node_table(
    parents: Bool[np.ndarray, "T m"],
    weights: Float[np.ndarray, " T"],
    held: Shares,
    *,
    cut: float,
    spared: tuple[float, float],
    capacity: int,
    every: Callable[[Int[np.ndarray, " k"]], Float[np.ndarray, " subsets"] | None],
) -> tuple[NodeTable, float]:
    """A node's table, and the mean share of the sets that it leaves out.

    Variables are ranked by the shares that the sets with them hold at most, and then by how many of
    the sets have them. The first `FEW` are candidates in any case, and then all whose sets hold
    more than `cut`, or fewer where the sets with the others hold no more than spared[0] on average.
    Where these are too many to lay sums out, the first are if the sets with the others hold no
    more than spared[1] together and `EACH` for any of them. Else all variables are candidates, as
    far as masks reach, with at most the `capacity` sets that hold most, and of those with others no
    more than it takes to leave out spared[0]. All sets of the candidates over which sums are laid
    out are listed if `every` gives their weights: chains cannot pass through orders whose sets are
    unknown, and in each of these sets alone there may be too little for anyone to look.
    """
    used = parents.any(axis=0)
    worth = np.exp(held.log_peak) @ parents
    rank = np.select(
        [parents.all(axis=0), used], [np.inf, worth + 1e-9 * parents.sum(axis=0)], -1.0
    )
    ranked = np.argsort(-rank, kind="stable")[: int(used.sum())]
    place = np.zeros(parents.shape[1], dtype=np.int64)
    place[ranked] = np.arange(1, len(ranked) + 1)
    depth = (parents * place).max(axis=1)
    beyond = held.mean.sum() - np.bincount(depth, held.mean, len(ranked) + 1).cumsum()
    size = min(int((rank > cut).sum()), int((beyond > spared[0]).sum()))
    size = min(len(ranked), max(FEW, size))
    each = (held.mean @ parents)[ranked[MOST_LAID_OUT:]].max(initial=0.0)
    if size > MOST_LAID_OUT and beyond[MOST_LAID_OUT] <= spared[1] and each <= EACH:
        size = MOST_LAID_OUT
    kept = depth <= size
    if size > MOST_LAID_OUT:
        size = min(len(ranked), MOST_CANDIDATES)
        kept = depth <= size
        # The smallest set fits into every order, and is never left out.
        best = np.lexsort(
            (-weights, -held.log_peak, parents.sum(axis=1) > parents.all(axis=0).sum())
        )
        kept[best[kept[best].cumsum() > capacity]] = False
        # Sums over listed sets are slow: those that hold least go, up to the share that is spared.
        least = np.argsort(np.where(depth > MOST_LAID_OUT, held.mean, np.inf), kind="stable")
        lost = np.where(kept, 0.0, held.mean).sum() + np.where(kept, held.mean, 0.0)[least].cumsum()
        kept[least[(lost <= spared[0]) & (depth[least] > MOST_LAID_OUT)]] = False
    candidates, lost = ranked[:size], float(held.mean[~kept].sum())
    masks, weights = parents[kept][:, candidates] @ (1 << np.arange(size)), weights[kept]
    complete = every(candidates[:MOST_LAID_OUT])
    if complete is not None:
        others, known = masks >= len(complete), np.flatnonzero(complete > -np.inf)
        masks = np.concatenate([known, masks[others]])
        weights = np.concatenate([complete[known], weights[others]])
    return NodeTable(candidates, masks, weights), lost


def tables(
    sets: ParentSets,
    held: Shares,
    weigher: Weigher,
    *,
    cut: float,
    spared: tuple[float, float],
    capacity: int,
) -> tuple[ScoreTables, Float[np.ndarray, " m"]]:
    """Tables of a collection, and for each node the mean share of what they leave out."""
    nodes, left_out = [], []
    weights = sets.weights
    for j in range(sets.m):
        rows = sets.of_node(j)
        table, lost = node_table(
            sets.parents(rows),
            weights[rows],
            Shares(held.log_peak[rows], held.mean[rows], held.room[rows]),
            cut=cut,
            spared=spared,
            capacity=capacity,
            every=partial(weigher.every, j),
        )
        nodes.append(table)
        left_out.append(lost)
    return ScoreTables.of(nodes, weigher.prior), np.array(left_out)
