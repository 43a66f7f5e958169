"""The exact posterior when every graph counts once, not once per linear extension.

The order model weighs a graph by the number of orders that agree with it; here that number is
divided out. Where the beliefs treat both directions of a pair alike, a graph's weight is
then the product Π_j exp w_j(parents of j), and each graph has one sequence of layers: its roots,
then what becomes a root once those are removed, and so on. A node of the next layer takes its
parents S among the placed nodes U, at least one of them in the last layer T:

    D_j(U, T) = log Σ_{S⊆U, S∩T≠∅} exp w_j(S).

Summing over layers (U, T) → (U ∪ T', T') has 4^m terms, all of them positive. Where beliefs
differ by direction the weight is no such product, and graphs are enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from scipy.special import logsumexp

from svidag.exact import subsets
from svidag.exact.orders import ParentWeights, log_consistent_orders
from svidag.graph import all_dags, ancestors
from svidag.posterior import DrawnGraphs, GraphDistribution
from svidag.run.streams import Stream, generator
from svidag.scores import subset_sums


def directions_alike(weights: ParentWeights, required: Bool[np.ndarray, "m m"]) -> bool:
    """Whether every order that the required edges leave has the same factor Π (1 − p_ij)."""
    m = weights.m
    absent = weights.gaps[:, 1 << np.arange(m)].T  # log(1 − p_ij) at [i, j]
    forced = ancestors(required.astype(np.uint8))
    free = ~(forced | forced.T)
    return bool(np.allclose(absent[free], absent.T[free], rtol=0.0, atol=1e-12))


def enumerated(weights: ParentWeights) -> tuple[DrawnGraphs, float]:
    """All graphs with their weights, and the log of the summed weight; for m ≤ 5."""
    graphs = all_dags(weights.m)
    parents = subsets.codes(graphs.swapaxes(1, 2))
    own = weights.sets[np.arange(weights.m), parents].sum(axis=1)
    possible = np.isfinite(own)
    graphs, parents, own = graphs[possible], parents[possible], own[possible]
    mean_gap = log_consistent_orders(parents, weights.gaps) - log_consistent_orders(
        parents, np.zeros_like(weights.gaps)
    )
    total = float(np.asarray(logsumexp(own + mean_gap)))
    return DrawnGraphs(graphs, np.exp(own + mean_gap - total)), total


@dataclass(frozen=True, eq=False)
class Layer:
    """The states that share the placed nodes U, and the steps that lead on from them.

    `last` are the possible last layers T, `earlier` is U ∖ T, `gain` is D_j(U, T) and `step` is
    Σ_{j∈T'} D_j(U, T) for every T' ⊆ V ∖ U, the empty one included.
    """

    placed: int
    inside: list[int]
    outside: list[int]
    last: Int[np.ndarray, " T"]
    earlier: Int[np.ndarray, " T"]
    gain: Float[np.ndarray, "outside T"]
    step: Float[np.ndarray, "T next"]


@dataclass(frozen=True, eq=False)
class States:
    """A number for each state (U, T), stored by the nodes P = U ∖ T placed before the last layer.

    The states of one P lie together, in the order of the subsets T of V ∖ P, so that what may
    follow U, the states with P = U, is a slice.
    """

    values: Float[np.ndarray, " states"]
    offset: Int[np.ndarray, " subsets_and_end"]

    @classmethod
    def empty(cls, m: int) -> States:
        """All states at −∞."""
        return cls.of(np.full(3**m, -np.inf), m)

    @classmethod
    def of(cls, values: Float[np.ndarray, " states"], m: int) -> States:
        """Given numbers, in the order in which states are stored."""
        sizes = 1 << (m - subsets.popcount(np.arange(2**m)))
        return cls(values, np.concatenate([[0], np.cumsum(sizes)]))

    def after(self, earlier: int) -> Float[np.ndarray, " next"]:
        """The states whose earlier nodes are these, as a view."""
        return self.values[self.offset[earlier] : self.offset[earlier + 1]]

    def index(self, layer: Layer, m: int) -> Int[np.ndarray, " T"]:
        """Where the states of a layer are stored: T ranks among the subsets of V ∖ (U ∖ T)."""
        free = (2**m - 1) & ~layer.earlier
        rank = np.zeros(len(layer.last), dtype=np.int64)
        for b in layer.inside:
            rank |= ((layer.last >> b) & 1) << subsets.popcount(free & ((1 << b) - 1))
        return self.offset[layer.earlier] + rank


@dataclass(frozen=True, eq=False)
class ExactStructures(GraphDistribution):
    """p(A | D) with every graph counted once, for beliefs that treat both directions alike.

    Attributes
    ----------
    weights
        w_j(S).
    sums
        log Σ_{S⊆U} exp w_j(S).
    rest
        log of the summed weight of all that can follow a state.
    log_total
        log of the summed weight of all graphs.
    """

    weights: ParentWeights
    sums: Float[np.ndarray, "m subsets"]
    rest: States
    log_total: float

    @classmethod
    def build(cls, weights: ParentWeights) -> ExactStructures:
        """Sum backwards from the full set of nodes."""
        m = weights.m
        sums = np.stack([subset_sums(sets) for sets in weights.sets])
        rest = States.empty(m)
        for layer in _layers(sums, descending=True):
            onward = layer.step[:, 1:] + rest.after(layer.placed)[1:]
            rest.values[rest.index(layer, m)] = _logsumexp(onward, axis=1) if layer.outside else 0.0
        return cls(weights, sums, rest, float(rest.values[0]))

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """P(i → j | D), exact: forward over layers, each step giving its nodes their parents."""
        m = self.weights.m
        with_parent = self._sums_with_parent()
        reached = States.empty(m)
        reached.values[0] = 0.0
        edges = np.zeros((m, m))
        for layer in _layers(self.sums, descending=False):
            arrive = reached.values[reached.index(layer, m)]
            paths = arrive[:, None] + layer.step[:, 1:]
            reached.after(layer.placed)[1:] = _logsumexp(paths, axis=0)
            visit = np.exp(paths + self.rest.after(layer.placed)[1:] - self.log_total)
            chosen = subsets.members(np.arange(1, layer.step.shape[1]), len(layer.outside))
            mass = visit @ chosen.astype(float)  # P(state, j in the next layer)
            inside, outside = np.ix_(layer.inside, layer.outside)
            takes = _logdiff(
                with_parent[inside, outside, layer.placed][..., None],
                with_parent[inside, outside][..., layer.earlier],
            )
            possible = np.isfinite(layer.gain)
            share = np.exp(takes - np.where(possible, layer.gain, np.inf))
            edges[inside, outside] += np.einsum("uct,tc->uc", share, mass)
        return edges

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws: layer by layer, then parents that reach into the last layer."""
        rng = generator(seed, Stream.GRAPH_DRAWS)
        within, through = self._draw_layers(n, rng)
        m = self.weights.m
        graphs = np.zeros((n, m, m), dtype=np.uint8)
        for j in range(m):
            for parent in np.unique(through[:, j]):
                rows = np.flatnonzero(through[:, j] == parent)
                sets = self.weights.sets[j]
                if parent >= 0:
                    has = (np.arange(len(sets)) >> parent) & 1 == 1
                    sets = np.where(has, sets, -np.inf)
                drawn = subsets.draw_subsets(sets, within[rows, j], rng)
                graphs[rows, :, j] = subsets.members(drawn, m)
        return graphs

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> Float[np.ndarray, " S"]:
        """log p(A | D)."""
        parents = subsets.codes(graphs.swapaxes(1, 2))
        own = self.weights.sets[np.arange(self.weights.m), parents].sum(axis=1)
        return own - self.log_total

    def _sums_with_parent(self) -> Float[np.ndarray, "m m subsets"]:
        """log Σ_{S⊆U, i∈S} exp w_j(S) at [i, j, U]."""
        m = self.weights.m
        every = np.arange(2**m)
        table = np.empty((m, m, 2**m))
        for i in range(m):
            has = (every >> i) & 1 == 1
            for j in range(m):
                table[i, j] = subset_sums(np.where(has, self.weights.sets[j], -np.inf))
        return table

    def _draw_layers(
        self, n: int, rng: np.random.Generator
    ) -> tuple[Int[np.ndarray, "n m"], Int[np.ndarray, "n m"]]:
        """For each draw and node, where its parents lie and which one it has for certain (or −1).

        Sets that meet the last layer T = {t_1 < t_2 < …} are split by their first t_k: those have
        t_k and lie within U ∖ {t_1, …, t_{k−1}}.
        """
        m = self.weights.m
        full = 2**m - 1
        within = np.zeros((n, m), dtype=np.int64)
        through = np.full((n, m), -1)
        states = np.zeros((n, 2), dtype=np.int64)  # U and T
        active = np.arange(n)
        while len(active):
            kinds, kind = np.unique(states[active], axis=0, return_inverse=True)
            for k, (placed, last) in enumerate(kinds):
                rows = active[kind.reshape(-1) == k]
                layer = _layer(self.sums, int(placed), np.array([last]))
                log_odds = (layer.step + self.rest.after(int(placed)))[0, 1:]
                picked = 1 + (log_odds + rng.gumbel(size=(len(rows), len(log_odds)))).argmax(axis=1)
                chosen = subsets.members(picked, len(layer.outside)) == 1
                for column, j in enumerate(layer.outside):
                    mine = rows[chosen[:, column]]
                    within[mine, j], through[mine, j] = self._first_parent(
                        j, int(placed), int(last), len(mine), rng
                    )
                added = chosen @ (1 << np.array(layer.outside))
                states[rows] = np.stack([placed | added, added], axis=1)
            active = active[states[active, 0] != full]
        return within, through

    def _first_parent(self, j: int, placed: int, last: int, n: int, rng: np.random.Generator):
        bits = [b for b in range(self.weights.m) if (last >> b) & 1]
        if not bits:
            return placed, -1
        room = placed & ~np.cumsum([0] + [1 << b for b in bits])
        log_odds = _logdiff(self.sums[j, room[:-1]], self.sums[j, room[1:]])
        pick = (log_odds + rng.gumbel(size=(n, len(bits)))).argmax(axis=1)
        return room[pick], np.array(bits)[pick]


def _layers(sums: Float[np.ndarray, "m subsets"], *, descending: bool) -> Iterator[Layer]:
    m = len(sums)
    every = np.arange(2**m)
    order = np.argsort(subsets.popcount(every), kind="stable")
    for placed in order[::-1] if descending else order:
        bits = [b for b in range(m) if (placed >> b) & 1]
        within = subsets.members(np.arange(2 ** len(bits)), len(bits)) @ (
            1 << np.array(bits, dtype=np.int64)
        )
        yield _layer(sums, int(placed), within[1:] if bits else within)


def _layer(sums: Float[np.ndarray, "m subsets"], placed: int, last: np.ndarray) -> Layer:
    m = len(sums)
    inside = [b for b in range(m) if (placed >> b) & 1]
    outside = [b for b in range(m) if not (placed >> b) & 1]
    earlier = placed & ~last
    here = np.broadcast_to(sums[outside, placed][:, None], (len(outside), len(last)))
    gain = _logdiff(here, sums[outside][:, earlier]) if placed else here
    step = np.zeros((len(last), 1))
    for row in gain:
        step = np.concatenate([step, step + row[:, None]], axis=1)
    return Layer(placed, inside, outside, last, earlier, gain, step)


def _logdiff(larger: np.ndarray, smaller: np.ndarray) -> np.ndarray:
    """log(exp a − exp b) for a ≥ b, −∞ where they are equal."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.minimum(np.where(np.isfinite(larger), smaller - larger, 0.0), 0.0)
        return np.where(np.isfinite(larger), larger + np.log(-np.expm1(gap)), -np.inf)


def _logsumexp(values: np.ndarray, axis: int) -> np.ndarray:
    top = values.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - top).sum(axis=axis)) + top.squeeze(axis)
