"""Tables of log weights over parent sets, one per node, looked up by bit mask.

For node j with candidate parents C_j, bit b of a mask stands for the b-th candidate. A table holds

    w_j(S) = f_j(S) + Σ_{i∈S} logit p_ij

(−∞ where S was not scored or lacks a required parent) and its sum over subsets,
log Σ_{S⊆U} exp w_j(S) for every U ⊆ C_j (a zeta transform). If U precedes j in an order,

    log p(D_j | U) = Σ_{i∈U} log(1 − p_ij) + log Σ_{S⊆U∩C_j} exp w_j(S)

costs one look-up, and P(i → j | U) = 1 − exp(F_j(U ∖ i) − F_j(U)) costs two. Pairs that hard
knowledge settles contribute no factor.

Where f_j is dear, a table may begin as a sketch by a cheaper mechanism and be made exact where it
carries weight (:mod:`svidag.scores.refinement`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.prior import EdgePrior


class TableSizeError(ValueError):
    """Tables would take more memory, or more candidates of a node, than they may."""


@dataclass(frozen=True, eq=False)
class NodeTable:
    """w_j(S) of one node by the mask of S; −∞ where not scored.

    Attributes
    ----------
    candidates
        The variables that may be parents, by bit.
    exact
        Weights by the mechanism itself.
    sketch
        Weights by a cheaper stand-in.
    """

    candidates: Int[np.ndarray, " k"]
    exact: Float[np.ndarray, " cells"]
    sketch: Float[np.ndarray, " cells"]

    @classmethod
    def empty(cls, candidates: Int[np.ndarray, " k"]) -> NodeTable:
        """A table in which nothing is scored yet."""
        blank = np.full(1 << len(candidates), -np.inf)
        return cls(candidates, blank, blank)

    @property
    def weights(self) -> Float[np.ndarray, " cells"]:
        """Exact weights, elsewhere the sketch with its drift made good.

        A stand-in with fewer units fits large sets worse, by an amount that grows with their size;
        the sets known both ways tell the slope.
        """
        both = np.isfinite(self.exact) & np.isfinite(self.sketch)
        size = np.bitwise_count(np.arange(len(self.exact))).astype(float)
        known = np.flatnonzero(both & (size > 0))
        drift = 0.0
        if len(known):
            gap = self.exact[known] - self.sketch[known]
            drift = (size[known] @ gap) / (size[known] @ size[known])
        return np.where(np.isfinite(self.exact), self.exact, self.sketch + drift * size)

    def widen(self, added: Int[np.ndarray, " new"]) -> NodeTable:
        """The same table with further candidates, none of whose sets is scored."""
        if len(added) == 0:
            return self
        cells = (1 << len(self.candidates) + len(added)) - len(self.exact)
        blank = np.full(cells, -np.inf)
        return NodeTable(
            np.concatenate([self.candidates, added]),
            np.concatenate([self.exact, blank]),
            np.concatenate([self.sketch, blank]),
        )

    def record(
        self, masks: Int[np.ndarray, " B"], values: Float[np.ndarray, " B"], *, sketch: bool
    ) -> NodeTable:
        """The same table with further weights."""
        changed = (self.sketch if sketch else self.exact).copy()
        changed[masks] = values
        name = "sketch" if sketch else "exact"
        return replace(self, **{name: changed})

    def members(self, masks: Int[np.ndarray, " B"], m: int) -> Bool[np.ndarray, "B m"]:
        """The parent sets that masks stand for, as rows."""
        rows = np.zeros((len(masks), m), dtype=bool)
        rows[:, self.candidates] = masks[:, None] >> np.arange(len(self.candidates)) & 1 == 1
        return rows


@dataclass(frozen=True, eq=False)
class ScoreTables:
    """All nodes' tables end to end. Memory: 32 bytes per cell, Σ_j 2^|C_j| cells.

    Attributes
    ----------
    nodes
        The table of each node.
    weights, sums
        w_j(S), and its log sum over subsets, node after node.
    offsets
        Where each node's part begins; the last entry is the number of cells.
    bits
        ``bits[i, j]`` is the bit of i in the masks of j, 0 if i is no candidate.
    absent
        ``absent[i, j]`` = log(1 − p_ij) where the pair is open, else 0.
    """

    nodes: tuple[NodeTable, ...]
    weights: Float[np.ndarray, " cells"]
    sums: Float[np.ndarray, " cells"]
    offsets: Int[np.ndarray, " ends"]
    bits: Int[np.ndarray, "m m"]
    absent: Float[np.ndarray, "m m"]

    @classmethod
    def assemble(cls, nodes: Sequence[NodeTable], prior: EdgePrior) -> ScoreTables:
        """Join the nodes' tables and sum them over subsets."""
        m = len(nodes)
        bits = np.zeros((m, m), dtype=np.int64)
        for j, node in enumerate(nodes):
            bits[node.candidates, j] = 1 << np.arange(len(node.candidates))
        weights = [node.weights for node in nodes]
        return cls(
            tuple(nodes),
            np.concatenate(weights),
            np.concatenate([subset_sums(table) for table in weights]),
            np.concatenate([[0], np.cumsum([len(table) for table in weights])]),
            bits,
            np.where(prior.free, np.log1p(-prior.marginal), 0.0),
        )

    @property
    def m(self) -> int:
        """The number of variables."""
        return len(self.nodes)

    @property
    def scored(self) -> int:
        """How many pairs of a node and a parent set were scored."""
        return int(np.isfinite(self.weights).sum())

    def cells(self, node: int) -> slice:
        """Where a node's part lies."""
        return slice(int(self.offsets[node]), int(self.offsets[node + 1]))

    def predecessors(self, node: int, orders: Int[np.ndarray, "S m"]) -> Int[np.ndarray, " S"]:
        """The mask of the candidates that precede a node in each order."""
        rank = np.argsort(orders, axis=1)
        return (rank < rank[:, node, None]) @ self.bits[:, node]

    def log_evidence(self, order: Int[np.ndarray, " m"]) -> float:
        """log p(D | order) = Σ_j F_j(predecessors of j), for an order that puts causes first."""
        rank = np.argsort(order)
        before = rank[:, None] < rank[None, :]
        masks = (before * self.bits).sum(axis=0)
        return float(self.sums[self.offsets[:-1] + masks].sum() + self.absent[before].sum())


def subset_sums(table: Float[np.ndarray, " cells"]) -> Float[np.ndarray, " cells"]:
    """log Σ_{S⊆U} exp table[S] for every mask U.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(subset_sums(np.log([1.0, 2.0, 3.0, 4.0]))).round(6).tolist()
    [1.0, 3.0, 4.0, 10.0]
    """
    return _over_subsets(np.logaddexp, table)


def subset_maxima(table: Float[np.ndarray, " cells"]) -> Float[np.ndarray, " cells"]:
    """max_{S⊆U} table[S] for every mask U."""
    return _over_subsets(np.maximum, table)


def _over_subsets(join: np.ufunc, table: np.ndarray) -> np.ndarray:
    out = table.copy()
    for b in range(len(table).bit_length() - 1):
        without, with_bit = split_bit(out, b)
        join(without, with_bit, out=with_bit)
    return out


def split_bit(table: np.ndarray, b: int) -> tuple[np.ndarray, np.ndarray]:
    """Views of the cells without and with bit b, in matching order."""
    pairs = table.reshape(-1, 2, 1 << b)
    return pairs[:, 0], pairs[:, 1]
