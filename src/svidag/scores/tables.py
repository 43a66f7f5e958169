"""Tables of log weights over parent sets, one per node, looked up by bit mask.

For node j with candidate parents C_j, bit b of a mask stands for the b-th candidate. A table lists
parent sets S with their weights

    w_j(S) = f_j(S) + Σ_{i∈S} logit p_ij,

and a set that is not listed has weight −∞. If U precedes j in an order,

    log p(D_j | U) = Σ_{i∈U} log(1 − p_ij) + F_j(U),    F_j(U) = log Σ_{S⊆U} exp w_j(S),

and P(i → j | U) = 1 − exp(F_j(U ∖ i) − F_j(U)). Pairs that hard knowledge decides contribute no
factor.

F_j over the sets of a node's first candidates is tabulated for every U (a zeta transform), and
costs one look-up. Where a node has more candidates, the sets with the others are added when the sum
is needed (:mod:`svidag.scores.lookup`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.prior import EdgePrior

MOST_CANDIDATES = 62  # a mask is a 64-bit integer, never negative
MAX_TABULATED = 17  # first candidates for whose subsets F_j is tabulated: a megabyte per node
FAR = 600.0  # nats between two weights at which their exponentials can no longer be added


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The listed parent sets of one node.

    Attributes
    ----------
    candidates
        The variables that may be parents, by bit.
    masks
        The listed sets.
    weights
        w_j(S) of each.

    Examples
    --------
    >>> table = NodeTable(np.array([4, 7]), np.array([0, 2]), np.array([-1.0, 0.5]))
    >>> table.members(8)[1].nonzero()[0].tolist(), table.by_weight()[0].tolist()
    ([7], [2, 0])
    """

    candidates: Int[np.ndarray, " k"]
    masks: Int[np.ndarray, " T"]
    weights: Float[np.ndarray, " T"]

    def __post_init__(self) -> None:
        if len(self.candidates) > MOST_CANDIDATES:
            raise ValueError(
                f"a table holds at most {MOST_CANDIDATES} candidate parents; "
                f"got {len(self.candidates)}"
            )

    def by_weight(self) -> tuple[Int[np.ndarray, " T"], Float[np.ndarray, " T"]]:
        """Sets and weights, the heaviest first."""
        ranked = np.lexsort((self.masks, -self.weights))
        return self.masks[ranked], self.weights[ranked]

    def others_by_weight(self) -> tuple[Int[np.ndarray, " T"], Float[np.ndarray, " T"]]:
        """The sets with other than the first candidates, the heaviest first."""
        others = ~self.first
        return replace(self, masks=self.masks[others], weights=self.weights[others]).by_weight()

    def members(self, m: int) -> Bool[np.ndarray, "T m"]:
        """The listed sets as rows over all m variables."""
        rows = np.zeros((len(self.masks), m), dtype=bool)
        rows[:, self.candidates] = self.masks[:, None] >> np.arange(len(self.candidates)) & 1 == 1
        return rows

    @property
    def first(self) -> Bool[np.ndarray, " T"]:
        """Which sets consist of first candidates only."""
        return self.masks < 1 << MAX_TABULATED

    def tabulated_sums(self) -> Float[np.ndarray, " cells"]:
        """log Σ exp w_j(S) over the sets S ⊆ U of the first candidates, for every such U."""
        cells = np.full(1 << min(len(self.candidates), MAX_TABULATED), -np.inf)
        cells[self.masks[self.first]] = self.weights[self.first]
        return subset_sums(cells)


@dataclass(frozen=True, eq=False)
class ScoreTables:
    """All nodes' tables end to end.

    Attributes
    ----------
    nodes
        The table of each node.
    masks, weights, starts
        All listed sets, node after node, and where each node's begin; the last entry of `starts` is
        their number.
    sums, offsets
        F_j for every subset of the first candidates, node after node, and where each node's begin.
    bits
        ``bits[i, j]`` is the bit of i in the masks of j, 0 if i is no candidate.
    absent
        ``absent[i, j]`` = log(1 − p_ij) where the pair is open, else 0.
    """

    nodes: tuple[NodeTable, ...]
    masks: Int[np.ndarray, " T"]
    weights: Float[np.ndarray, " T"]
    starts: Int[np.ndarray, " bounds"]
    sums: Float[np.ndarray, " cells"]
    offsets: Int[np.ndarray, " m"]
    bits: Int[np.ndarray, "m m"]
    absent: Float[np.ndarray, "m m"]

    @classmethod
    def of(cls, nodes: Sequence[NodeTable], prior: EdgePrior) -> ScoreTables:
        """Join the nodes' tables under a prior."""
        return cls.join(nodes, np.where(prior.free, np.log1p(-prior.marginal), 0.0))

    @classmethod
    def join(cls, nodes: Sequence[NodeTable], absent: Float[np.ndarray, "m m"]) -> ScoreTables:
        """Join the nodes' tables and tabulate their sums."""
        bits = np.zeros(absent.shape, dtype=np.int64)
        for j, node in enumerate(nodes):
            bits[node.candidates, j] = 1 << np.arange(len(node.candidates))
        sums = [node.tabulated_sums() for node in nodes]
        return cls(
            tuple(nodes),
            np.concatenate([node.masks for node in nodes]),
            np.concatenate([node.weights for node in nodes]),
            np.concatenate([[0], np.cumsum([len(node.masks) for node in nodes])]),
            np.concatenate(sums),
            np.cumsum([0, *map(len, sums)])[:-1],
            bits,
            absent,
        )

    def parts(self) -> dict[str, np.ndarray]:
        """The arrays from which `from_parts` makes the tables again, for storage."""
        return {
            "sizes": np.array([len(node.candidates) for node in self.nodes]),
            "candidates": np.concatenate([node.candidates for node in self.nodes]),
            "counts": np.diff(self.starts),
            "masks": self.masks,
            "weights": self.weights,
            "absent": self.absent,
        }

    @classmethod
    def from_parts(cls, arrays: Mapping[str, np.ndarray]) -> ScoreTables:
        """The tables from the arrays of `parts`."""
        m, listed = len(arrays["absent"]), int(arrays["counts"].sum())
        shapes = {name: array.shape for name, array in arrays.items()}
        if shapes != {
            "sizes": (m,),
            "candidates": (int(arrays["sizes"].sum()),),
            "counts": (m,),
            "masks": (listed,),
            "weights": (listed,),
            "absent": (m, m),
        }:
            raise ValueError(
                f"the stored tables are inconsistent: their arrays have the shapes {shapes}"
            )
        candidates = np.split(arrays["candidates"], np.cumsum(arrays["sizes"])[:-1])
        ends = np.cumsum(arrays["counts"])[:-1]
        parts = (candidates, np.split(arrays["masks"], ends), np.split(arrays["weights"], ends))
        nodes = [NodeTable(*part) for part in zip(*parts, strict=True)]
        return cls.join(nodes, arrays["absent"])

    @property
    def m(self) -> int:
        """The number of variables."""
        return len(self.nodes)

    @property
    def bytes(self) -> int:
        """Memory of the listed sets and sums."""
        return self.masks.nbytes + self.weights.nbytes + self.sums.nbytes

    def log_sums(self, node: int, before: Int[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
        """F_j(U) for masks of predecessors."""
        table = self.nodes[node]
        sums = self.sums[self.offsets[node] + (before & ((1 << MAX_TABULATED) - 1))]
        if len(table.candidates) <= MAX_TABULATED:
            return sums
        distinct, which = np.unique(before, return_inverse=True)
        masks, weights = table.masks[~table.first], table.weights[~table.first]
        inside = masks & ~distinct[:, None] == 0
        others = np.logaddexp.reduce(np.where(inside, weights, -np.inf), axis=1, initial=-np.inf)
        return np.logaddexp(sums, others[which.reshape(-1)])

    def log_evidence(self, orders: Int[np.ndarray, "S m"]) -> Float[np.ndarray, " S"]:
        """log p(D | order) = Σ_j log p(D_j | predecessors of j), for orders with causes first."""
        rank, evidence = np.argsort(orders, axis=1), sum_absent(self.absent, orders)
        for k, node in enumerate(self.nodes):
            before = rank[:, node.candidates] < rank[:, k, None]
            evidence += self.log_sums(k, before @ self.bits[node.candidates, k])
        return evidence


def sum_absent(
    absent: Float[np.ndarray, "m m"], orders: Int[np.ndarray, "S m"]
) -> Float[np.ndarray, " S"]:
    """Σ absent[i, j] over the pairs where i comes before j in an order.

    Pairs that have the same value in both directions contribute the same to every order.

    Examples
    --------
    >>> sum_absent(np.array([[0.0, 1.0], [3.0, 0.0]]), np.array([[0, 1], [1, 0]])).tolist()
    [1.0, 3.0]
    """
    rank = np.argsort(orders, axis=1)
    i, j = np.nonzero(np.triu(absent != absent.T))
    return np.tril(absent).sum() + (rank[:, i] < rank[:, j]) @ (absent[i, j] - absent[j, i])


def subset_sums(table: Float[np.ndarray, " cells"]) -> Float[np.ndarray, " cells"]:
    """log Σ_{S⊆U} exp table[S] for every mask U.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(subset_sums(np.log([1.0, 2.0, 3.0, 4.0]))).round(6).tolist()
    [1.0, 3.0, 4.0, 10.0]
    """
    steps = range(len(table).bit_length() - 1)
    top, least = table.max(), table.min(initial=np.inf, where=table > -np.inf)
    if (
        table[0] > -np.inf and top - least < FAR
    ):  # no exponential underflows, so the faster way is safe
        out = np.exp(table - top)
        for b in steps:
            pairs = out.reshape(-1, 2, 1 << b)
            pairs[:, 1] += pairs[:, 0]
        return top + np.log(out)
    out = table.copy()
    for b in steps:
        pairs = out.reshape(-1, 2, 1 << b)
        np.logaddexp(pairs[:, 0], pairs[:, 1], out=pairs[:, 1])
    return out
