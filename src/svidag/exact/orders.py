"""The exact posterior under uniform orders, by dynamic programming over subsets.

Koivisto and Sood (2004). With the prior's marginals p_ij and local scores f_j,

    w_j(S) = f_j(S) + Σ_{i∈S} logit p_ij,
    F_j(U) = Σ_{i∈U} log(1 − p_ij) + log Σ_{S⊆U} exp w_j(S),

an order has weight Π_j exp F_j(predecessors of j). Forward sums over the sets U that may come
first and backward sums over what may follow give the total, every parent-set probability and
independent draws. A required parent gives weight 0 to the sets without it, and so to the orders
in which it comes too late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from scipy.special import logsumexp

from svidag.exact import subsets
from svidag.graph import linear_extensions
from svidag.kernels.order_sums import log_order_sums
from svidag.posterior import GraphDistribution
from svidag.prior import EdgePrior
from svidag.run.streams import Stream, generator
from svidag.scores import subset_sums


@dataclass(frozen=True, eq=False)
class ParentWeights:
    """Log weights by node: `sets` is w_j(S), `gaps` is Σ_{i∈U} log(1 − p_ij)."""

    sets: Float[np.ndarray, "m subsets"]
    gaps: Float[np.ndarray, "m subsets"]

    @property
    def m(self) -> int:
        """The number of nodes."""
        return self.sets.shape[0]

    def parts(self) -> dict[str, np.ndarray]:
        """For storage: the sets without the node itself, and log(1 − p_ij) at [i, j]."""
        absent = self.gaps[:, 1 << np.arange(self.m)].T
        return {"sets": subsets.without_own(self.sets), "absent": absent}

    @classmethod
    def from_parts(cls, parts: Mapping[str, np.ndarray]) -> ParentWeights:
        """The object from the arrays of `parts`."""
        sets = subsets.with_own(parts["sets"])
        if parts["absent"].shape != (len(sets), len(sets)):
            raise ValueError(
                f"the stored array 'absent' has the wrong shape {parts['absent'].shape}"
            )
        return cls(sets, np.stack([subsets.additive(column) for column in parts["absent"].T]))


def parent_weights(scores: Float[np.ndarray, "m subsets"], prior: EdgePrior) -> ParentWeights:
    """Join local scores and the prior; a required pair is certain, a deleted one impossible.

    A required pair carries no factor of its own: conditioning on it divides that factor out.
    """
    p = np.where(prior.required, 0.5, prior.marginal)  # logit 0: no factor when present
    with np.errstate(divide="ignore"):
        logit = np.log(p) - np.log1p(-p)
    absent = np.where(prior.required, 0.0, np.log1p(-p))
    m = len(p)
    every = subsets.members(np.arange(2**m), m)
    sets = np.empty_like(scores)
    gaps = np.empty_like(scores)
    for j in range(m):
        held = (every >= prior.required[:, j]).all(axis=1)
        sets[j] = np.where(held, scores[j] + subsets.additive(logit[:, j]), -np.inf)
        gaps[j] = subsets.additive(absent[:, j])
    return ParentWeights(sets, gaps)


@dataclass(frozen=True, eq=False)
class ExactOrders(GraphDistribution):
    """p(A | D) under uniform orders.

    Attributes
    ----------
    weights
        w_j(S) and the order's own factors.
    follow
        F_j(U) for every node and every set U without it.
    before, after
        log of the summed weight of all orders of U, and of all orders of what follows U.
    log_evidence
        log p(D | knowledge).
    """

    weights: ParentWeights
    follow: Float[np.ndarray, "m subsets"]
    before: Float[np.ndarray, " subsets"]
    after: Float[np.ndarray, " subsets"]
    log_evidence: float

    def parts(self) -> dict[str, Any]:
        """For storage: all fields, and of `follow` only the sets without the node itself."""
        return {**vars(self), "follow": subsets.without_own(self.follow)}

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> ExactOrders:
        """The object from the arrays of `parts`."""
        weights, every = parts["weights"], (2 ** parts["weights"].m,)
        follow = subsets.with_own(parts["follow"])
        if not parts["before"].shape == parts["after"].shape == follow.shape[1:] == every:
            raise ValueError(
                f"the stored sums over orders have the wrong shape {parts['before'].shape}"
            )
        return cls(weights, follow, parts["before"], parts["after"], parts["log_evidence"])

    @classmethod
    def build(cls, weights: ParentWeights, required: Bool[np.ndarray, "m m"]) -> ExactOrders:
        """Run the forward and backward recursions."""
        follow = np.stack(
            [gap + subset_sums(sets) for sets, gap in zip(weights.sets, weights.gaps, strict=True)]
        )
        own = subsets.members(np.arange(follow.shape[1]), weights.m).T == 1
        follow[own] = -np.inf
        before, after = _forward(follow), _backward(follow)
        # Orders are uniform among those that the required edges leave.
        log_orders = float(np.log(float(linear_extensions(required.astype(np.uint8)))))
        return cls(weights, follow, before, after, float(after[0]) - log_orders)

    def parent_set_probabilities(self) -> Float[np.ndarray, "m subsets"]:
        """P(parents of j = S | D) for every node and set.

        Summed over the predecessor sets U ⊇ S, each weighing before(U) · after(U ∪ j).
        """
        m = self.weights.m
        every = np.arange(2**m)
        table = np.empty_like(self.follow)
        for j in range(m):
            around = self.before + self.after[every | (1 << j)] + self.weights.gaps[j]
            around[(every >> j) & 1 == 1] = -np.inf
            orders = subsets.superset_sums(around)
            table[j] = np.exp(self.weights.sets[j] + orders - self.after[0])
        return table

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """P(i → j | D), exact."""
        m = self.weights.m
        inside = subsets.members(np.arange(2**m), m).astype(float)
        return (self.parent_set_probabilities() @ inside).T

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws: an order from first to last, then each node's parents given it."""
        rng = generator(seed, Stream.GRAPH_DRAWS)
        predecessors = self._draw_predecessors(n, rng)
        graphs = np.empty((n, self.weights.m, self.weights.m), dtype=np.uint8)
        for j in range(self.weights.m):
            parents = subsets.draw_subsets(self.weights.sets[j], predecessors[:, j], rng)
            graphs[:, :, j] = subsets.members(parents, self.weights.m)
        return graphs

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> Float[np.ndarray, " S"]:
        """log p(A | D): the graph's weight summed over the orders that agree with it."""
        m = self.weights.m
        parents = subsets.codes(graphs.swapaxes(1, 2))
        own = self.weights.sets[np.arange(m), parents].sum(axis=1)
        return own + log_consistent_orders(parents, self.weights.gaps) - self.after[0]

    def _draw_predecessors(self, n: int, rng: np.random.Generator) -> Int[np.ndarray, "n m"]:
        m = self.weights.m
        bits = 1 << np.arange(m)
        placed = np.zeros(n, dtype=np.int64)
        predecessors = np.zeros((n, m), dtype=np.int64)
        for _ in range(m):
            log_odds = self.follow[:, placed].T + self.after[placed[:, None] | bits]
            node = (log_odds + rng.gumbel(size=(n, m))).argmax(axis=1)
            predecessors[np.arange(n), node] = placed
            placed = placed | bits[node]
        return predecessors


def _forward(follow: Float[np.ndarray, "m subsets"]) -> Float[np.ndarray, " subsets"]:
    """log Σ over orders of U of Π F_j, for every U."""
    m, count = follow.shape
    every = np.arange(count)
    size = subsets.popcount(every)
    before = np.full(count, -np.inf)
    before[0] = 0.0
    for level in range(1, m + 1):
        current = every[size == level]
        last = current[:, None] & ~(1 << np.arange(m))  # U without its last node
        terms = np.where(
            last != current[:, None], before[last] + follow[np.arange(m), last], -np.inf
        )
        before[current] = logsumexp(terms, axis=1)
    return before


def _backward(follow: Float[np.ndarray, "m subsets"]) -> Float[np.ndarray, " subsets"]:
    """log Σ over orders of what is not in U of Π F_j, for every U."""
    m, count = follow.shape
    every = np.arange(count)
    size = subsets.popcount(every)
    after = np.full(count, -np.inf)
    after[-1] = 0.0
    for level in reversed(range(m)):
        current = every[size == level]
        longer = current[:, None] | (1 << np.arange(m))
        after[current] = logsumexp(follow[:, current].T + after[longer], axis=1)
    return after


def log_consistent_orders(
    parents: Int[np.ndarray, "S m"], gaps: Float[np.ndarray, "m subsets"]
) -> Float[np.ndarray, " S"]:
    """log Σ over the orders that agree with each graph of Π_j exp gap_j(predecessors)."""
    found = np.empty(len(parents))
    log_order_sums(parents.astype(np.int64), gaps, np.empty(gaps.shape[1]), found)
    return found
