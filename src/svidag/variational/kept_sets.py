"""Parent sets found during training, and moves over orders on the evidence in these sets alone.

While the guide is trained, every parent set with a relevant share in some column is kept with its
weight

    w_j(S) = f_j(S) + Σ_{i∈S} logit p_ij.

These are the drawn sets and their neighbours by one edge, whose scores the training step computes
anyway. Given predecessors U of j, the kept sets within U sum to a lower bound on the evidence,

    g_j(U) = exp(Σ_{i∈U} log(1 − p_ij)) Σ_{kept S ⊆ U} exp w_j(S) ≤ p(D_j | U).

It has two uses. First, g_j(U) plus the guide's estimate of the sets that were *not* kept is an
unbiased estimate of p(D_j | U); the second term is small and adds little noise. Second, a chain on
the product of the g_j proposes orders: many of its moves need one estimate only, and the ratio of
the estimate to g decides whether the proposal is accepted (Liu's surrogate transition), so that the
target remains exact.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray, UInt64

from svidag.mechanisms.local import FamilyScores, LocalScores, pack_families, unpack_families
from svidag.orders.permutation import list_columns
from svidag.prior import EdgePrior
from svidag.run.streams import host_generator
from svidag.samplers.relocation import MOVES
from svidag.variational import kept_set_moves as surrogate
from svidag.variational.evidence_estimate import (
    EvidenceEstimates,
    GuideEstimator,
    summarise_draws,
)
from svidag.variational.guide_training import ScoredDraws

__all__ = ["KeptParentSets", "KeptSetEstimator", "ParentSetCollection", "UncorrectedEstimator"]


@dataclass(eq=False)
class ParentSetCollection:
    """The relevant parent sets of every node found so far; it grows during training.

    Attributes
    ----------
    prior
        The prior over edges.
    scores
        f_j, for the smallest parent set of each node, which is always kept.
    reach
        A set is relevant if, in a column where it was seen, its log weight is at most this much
        below that of the best set.
    capacity
        How many sets of each node `freeze` keeps, the most relevant ones.

    Examples
    --------
    >>> from svidag.prior import Prior
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> model = LinearGaussian.from_values(np.random.default_rng(0).standard_normal((9, 2)))
    >>> collection = ParentSetCollection(Prior(p=0.5).bind("ab"), model)
    >>> column = np.array([[True, False]])
    >>> collection.add(np.array([1]), column, column[:, None], np.array([[-3.0]]),
    ...                np.array([[[2.0, 0.0]]]))
    >>> collection.freeze().count.tolist()
    [1, 2]
    """

    prior: EdgePrior
    scores: FamilyScores
    reach: float = 7.0
    capacity: int = 2000
    _weight: dict[bytes, float] = field(default_factory=dict, init=False, repr=False)
    _relevance: dict[bytes, float] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        smallest = np.ascontiguousarray(self.prior.required.T)  # one row for each node
        nodes = np.arange(len(smallest))
        weights = self.scores.family_scores(nodes, smallest)
        self._keep(pack_families(nodes, smallest), weights, np.full(len(nodes), np.inf))

    def __len__(self) -> int:
        return len(self._weight)

    def copy(self) -> ParentSetCollection:
        """The same sets; what is added to the copy is not added here."""
        return self._with(dict(self._weight), dict(self._relevance))

    def arrays(self) -> dict[str, np.ndarray]:
        """Keys as rows of bytes, weights, and how relevant each set was."""
        keys = np.frombuffer(b"".join(self._weight), dtype=np.uint8)
        return {
            "keys": keys.reshape(len(self), -1),
            "weights": np.fromiter(self._weight.values(), float),
            "relevance": np.fromiter(self._relevance.values(), float),
        }

    def restored(self, arrays: dict[str, np.ndarray]) -> ParentSetCollection:
        """A collection like this one, with the sets that `arrays` gave."""
        keys = [row.tobytes() for row in arrays["keys"]]
        weights, relevance = arrays["weights"].tolist(), arrays["relevance"].tolist()
        return self._with(
            dict(zip(keys, weights, strict=True)), dict(zip(keys, relevance, strict=True))
        )

    def _with(
        self, weight: dict[bytes, float], relevance: dict[bytes, float]
    ) -> ParentSetCollection:
        other = copy.copy(self)
        other._weight, other._relevance = weight, relevance
        return other

    def add(
        self,
        nodes: Int[np.ndarray, " P"],
        columns: Bool[np.ndarray, "P m"],
        parents: Bool[np.ndarray, "P S m"],
        log_joint: Float[np.ndarray, "P S"],
        gain: Float[np.ndarray, "P S m"],
    ) -> None:
        """Look at drawn parent sets and at all sets one open edge away.

        `log_joint` is log p(D_j, B) of a drawn set and `gain` what each edge adds to it.
        """
        free = columns & ~self.prior.required.T[nodes]
        step = np.where(parents, -gain, gain)
        step = np.where(free[:, None], step, -np.inf)
        nearby = np.concatenate([log_joint[:, :, None], log_joint[:, :, None] + step], axis=2)
        relevance = nearby - nearby.max(axis=(1, 2), keepdims=True)
        pair, draw, flip = np.nonzero(relevance > -self.reach)
        sets = parents[pair, draw]
        flipped = flip > 0
        sets[flipped, flip[flipped] - 1] ^= True
        absent = np.where(columns, self.prior.free_log_absent.T[nodes], 0.0).sum(axis=1)
        weights = nearby[pair, draw, flip] - absent[pair]
        self._keep(
            pack_families(nodes[pair], sets), weights, np.float64(relevance[pair, draw, flip])
        )

    def add_draws(self, possible: Bool[np.ndarray, "K m m"], scored: ScoredDraws) -> None:
        """Look at what a training step drew for the columns of its orders."""
        m, K = scored.log_joint.shape[:2]
        self.add(
            np.repeat(np.arange(m), K),
            possible.transpose(2, 0, 1).reshape(-1, m),
            *(
                array.reshape(m * K, *array.shape[2:])
                for array in (scored.parents, scored.log_joint, scored.gain)
            ),
        )

    def explore(
        self,
        kept: KeptParentSets,
        possible: Bool[np.ndarray, "K m m"],
        scores: LocalScores,
        rng: np.random.Generator,
    ) -> None:
        """From a kept set of each column, drawn by weight, look one edge further."""
        nodes, columns = list_columns(possible)
        _, _, parents = kept.condition(nodes, columns, rng.random(len(nodes)))
        free = columns & ~self.prior.required.T[nodes]
        score, delta = scores.flips(nodes, parents, free)
        log_joint = score + self.prior.parents_log_prior(nodes, columns, parents)
        gain = delta + self.prior.free_log_odds.T[nodes]
        self.add(nodes, columns, parents[:, None], log_joint[:, None], gain[:, None])

    def freeze(self) -> KeptParentSets:
        """The sets as arrays, ready for use."""
        nodes, sets = unpack_families(list(self._weight), len(self.prior.required))
        weights = np.fromiter(self._weight.values(), float)
        relevance = np.fromiter(self._relevance.values(), float)
        ranked = np.lexsort((-relevance, nodes))
        start = np.searchsorted(nodes[ranked], np.arange(len(self.prior.required)))
        rank = np.arange(len(ranked)) - start[nodes[ranked]]
        kept = ranked[rank < self.capacity]
        return KeptParentSets.of(nodes[kept], sets[kept], weights[kept], self.prior)

    def _keep(self, keys, weights, relevance):
        for key, weight, share in zip(keys, weights.tolist(), relevance.tolist(), strict=True):
            if share > self._relevance.get(key, -np.inf):
                self._weight[key] = weight
                self._relevance[key] = share


@dataclass(frozen=True, eq=False)
class KeptParentSets:
    """Kept parent sets, by node and then by falling weight.

    Attributes
    ----------
    sets
        One row of 0/1 for each kept set.
    words
        The same, packed.
    weights
        w_j(S).
    offsets
        Where each node's sets begin; the last entry is their number.
    prior
        The prior over edges.
    keys
        The sets by their short keys.
    memo
        Sums over columns that a walk has met: values of a pure function, and their arguments.
    """

    sets: Bool[np.ndarray, "T m"]
    words: UInt64[np.ndarray, "T W"]
    weights: Float[np.ndarray, " T"]
    offsets: Int[np.ndarray, " m+1"]
    prior: EdgePrior
    keys: frozenset[bytes]
    memo: tuple[UInt64[np.ndarray, "m H W"], Float[np.ndarray, "m H"]]

    @classmethod
    def of(
        cls,
        nodes: Int[np.ndarray, " T"],
        sets: Bool[np.ndarray, "T m"],
        weights: Float[np.ndarray, " T"],
        prior: EdgePrior,
    ) -> KeptParentSets:
        """Sort and pack."""
        at = np.lexsort((-weights, nodes))
        nodes, sets, weights = nodes[at], sets[at], weights[at]
        offsets = np.searchsorted(nodes, np.arange(sets.shape[1] + 1))
        keys = frozenset(pack_families(nodes, sets))
        words, m = pack_words(sets), sets.shape[1]
        memo = (
            np.zeros((m, surrogate.MEMO, words.shape[1]), np.uint64),
            np.full((m, surrogate.MEMO), np.nan),
        )
        return cls(sets, words, weights, offsets, prior, keys, memo)

    @property
    def count(self) -> Int[np.ndarray, " m"]:
        """How many sets each node has."""
        return np.diff(self.offsets)

    def contains(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Bool[np.ndarray, " B"]:
        """Whether each parent set was kept."""
        keys = pack_families(nodes, parents)
        return np.fromiter((key in self.keys for key in keys), bool, count=len(keys))

    def condition(
        self,
        nodes: Int[np.ndarray, " P"],
        columns: Bool[np.ndarray, "P m"],
        uniforms: Float[np.ndarray, " P"],
    ) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, "P m"], Bool[np.ndarray, "P m"]]:
        """log g_j(U), the probability of each edge among the kept sets within U, and a draw."""
        log_sum = np.empty(len(nodes))
        edges = np.zeros(columns.shape)
        chosen = np.zeros(len(nodes), dtype=np.int64)
        surrogate.condition(
            nodes, pack_words(columns), self.sets, self.words, self.weights, self.offsets,
            uniforms, log_sum, edges, chosen,
        )  # fmt: skip
        absent = np.where(columns, self.prior.free_log_absent.T[nodes], 0.0).sum(axis=1)
        return log_sum + absent, edges, self.sets[chosen]

    def draw(
        self,
        nodes: Int[np.ndarray, " P"],
        columns: Bool[np.ndarray, "P m"],
        count: int,
        rng: np.random.Generator,
    ) -> Bool[np.ndarray, "P count m"]:
        """Kept sets within each column by their weight: one from each of `count` equal shares."""
        uniforms = (np.arange(count) + rng.random((len(nodes), count))) / count
        chosen = np.zeros((len(nodes), count), dtype=np.int64)
        surrogate.draw(
            nodes, pack_words(columns), self.words, self.weights, self.offsets, uniforms, chosen
        )
        return self.sets[chosen]

    def walk(
        self,
        replicas: Int[np.ndarray, "K levels m"],
        rng: np.random.Generator,
        *,
        powers: Float[np.ndarray, " levels"],
        sweeps: int,
        moves: str = "relocation",
    ) -> Int[np.ndarray, "K levels m"]:
        """Move nodes and exchange replicas, reversibly for the product of g^power over levels.

        A sweep is as many steps as there are nodes, half of them on the last level.
        """
        K, _, m = replicas.shape
        moved = replicas.astype(np.int64)
        uniforms = rng.random((K, sweeps * m, 4))
        unions = np.bitwise_or.reduceat(self.words, self.offsets[:-1], axis=0)
        related = np.logical_or.reduceat(self.sets, self.offsets[:-1], axis=0).T.copy()
        absent = self.prior.free_log_absent
        after = absent.T - absent
        sums = (self.words, self.weights, self.offsets, unions, *self.memo)
        surrogate.walk(MOVES.index(moves), moved, sums, related, after, powers, uniforms)
        return moved


@dataclass(frozen=True, eq=False)
class KeptSetEstimator:
    """The kept sets exactly, the rest by the guide.

    p̂_j = g_j(U) + S⁻¹ Σ_s 1[Bˢ not kept] p(D_j, Bˢ)/q̂_j(Bˢ), whose mean is p(D_j | U).
    """

    kept: KeptParentSets
    rest: GuideEstimator

    def __call__(
        self, key: PRNGKeyArray, nodes: Int[np.ndarray, " P"], columns: Bool[np.ndarray, "P m"]
    ) -> EvidenceEstimates:
        """Estimate each pair; its randomness comes from the key alone."""
        uniforms = host_generator(key).random((3, len(nodes)))
        log_known, edges, parents = self.kept.condition(nodes, columns, uniforms[0])
        log_weight, drawn = self.rest.weigh(key, nodes, columns)
        P, S, m = drawn.shape
        seen = self.kept.contains(np.repeat(nodes, S), drawn.reshape(-1, m)).reshape(P, S)
        log_new, new_edges, new_parents = summarise_draws(
            np.where(seen, -np.inf, log_weight), drawn, uniforms[1]
        )
        log_evidence = np.logaddexp(log_known, log_new)
        share = np.exp(log_new - log_evidence)[:, None]
        return EvidenceEstimates(
            log_evidence,
            log_known,
            (1 - share) * edges + share * new_edges,
            np.where(uniforms[2][:, None] < share, new_parents, parents),
        )


@dataclass(frozen=True, eq=False)
class UncorrectedEstimator:
    """Edges and parents from the guide as it stands; orders by the kept sets alone.

    With p̂_j = g_j(U) every proposed order is accepted, and nothing makes up for what the guide or
    the kept sets have wrong.
    """

    kept: KeptParentSets
    guide: GuideEstimator

    def __call__(
        self, key: PRNGKeyArray, nodes: Int[np.ndarray, " P"], columns: Bool[np.ndarray, "P m"]
    ) -> EvidenceEstimates:
        """The share of each edge among the guide's draws for each pair, and the first of them."""
        log_known, _, _ = self.kept.condition(nodes, columns, np.zeros(len(nodes)))
        drawn, _ = self.guide.draw(key, nodes, columns)
        return EvidenceEstimates(log_known, log_known, drawn.mean(axis=1), drawn[:, 0])


def pack_words(rows: Bool[np.ndarray, "T m"]) -> UInt64[np.ndarray, "T W"]:
    """Rows of 0/1 as 64-bit words, variable i at bit i mod 64 of word i // 64.

    Examples
    --------
    >>> pack_words(np.array([[True, False, True]])).tolist()
    [[5]]
    """
    padded = np.pad(np.ascontiguousarray(rows), ((0, 0), (0, -rows.shape[1] % 64)))
    return np.packbits(padded, axis=1, bitorder="little").view("<u8")
