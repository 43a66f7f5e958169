"""Tables of log weights over parent sets, one per node, looked up by bit mask.

For node j with candidate parents C_j, bit b of a mask stands for the b-th candidate. The table holds

    w_j(S) = f_j(S) + Σ_{i∈S} logit p_ij        (−∞ where S was not scored or lacks a required parent)

and its sum over subsets, log Σ_{S⊆U} exp w_j(S) for every U ⊆ C_j (a zeta transform), so that given
an order with predecessors U of j

    log p(D_j | U) = Σ_{i∈U} log(1 − p_ij) + log Σ_{S⊆U∩C_j} exp w_j(S)

costs one look-up, and P(i → j | U) = 1 − exp(F_j(U ∖ i) − F_j(U)) costs two. Pairs that hard
knowledge settles contribute no factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.prior import EdgePrior


@runtime_checkable
class FamilyScores(Protocol):
    """Mechanisms whose evidence f_j(S) has a closed form."""

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node and a parent set."""
        ...


@dataclass(frozen=True, eq=False)
class ScoreTables:
    """All nodes' tables end to end. Memory: 16 bytes per cell, Σ_j 2^|C_j| cells.

    Attributes
    ----------
    candidates
        For each node, the variables that may be its parents, by bit.
    weights, sums
        w_j(S), and its log sum over subsets.
    offsets
        Where each node's table begins; the last entry is the number of cells.
    bits
        ``bits[i, j]`` is the bit of i in the masks of j, 0 if i is no candidate.
    absent
        ``absent[i, j]`` = log(1 − p_ij) where the pair is open, else 0.
    """

    candidates: tuple[Int[np.ndarray, " _"], ...]
    weights: Float[np.ndarray, " cells"]
    sums: Float[np.ndarray, " cells"]
    offsets: Int[np.ndarray, " ends"]
    bits: Int[np.ndarray, "m m"]
    absent: Float[np.ndarray, "m m"]

    @classmethod
    def assemble(
        cls,
        candidates: Sequence[Int[np.ndarray, " _"]],
        weights: Sequence[Float[np.ndarray, " _"]],
        prior: EdgePrior,
    ) -> ScoreTables:
        """Join the nodes' tables and sum them over subsets."""
        m = len(candidates)
        bits = np.zeros((m, m), dtype=np.int64)
        for j, chosen in enumerate(candidates):
            bits[chosen, j] = 1 << np.arange(len(chosen))
        return cls(
            tuple(candidates),
            np.concatenate(list(weights)),
            np.concatenate([subset_sums(table) for table in weights]),
            np.concatenate([[0], np.cumsum([len(table) for table in weights])]),
            bits,
            np.where(prior.free, np.log1p(-prior.marginal), 0.0),
        )

    @property
    def m(self) -> int:
        """The number of variables."""
        return len(self.candidates)

    @property
    def scored(self) -> int:
        """How many pairs of a node and a parent set were scored."""
        return int(np.isfinite(self.weights).sum())

    def table(self, node: int) -> Float[np.ndarray, " _"]:
        """w_j(S) by the mask of S."""
        return self.weights[self.offsets[node] : self.offsets[node + 1]]

    def masks(self, node: int, parents: Bool[np.ndarray, "S m"]) -> Int[np.ndarray, " S"]:
        """The masks of given parent sets; parents that are no candidates are left out."""
        return parents.astype(np.int64) @ self.bits[:, node]

    def log_evidence(self, order: Int[np.ndarray, " m"]) -> float:
        """log p(D | order) = Σ_j F_j(predecessors of j), for an order that puts causes first."""
        before = np.zeros((self.m, self.m), dtype=bool)
        for t, j in enumerate(order):
            before[order[:t], j] = True
        found = [self.sums[self.offsets[j] + self.bits[before[:, j], j].sum()] for j in order]
        return float(np.sum(found) + self.absent[before].sum())


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
