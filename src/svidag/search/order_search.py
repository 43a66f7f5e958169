"""Annealed search over orders, with the best parents of every node found on the way.

An order allows j the parents S ⊆ U_j among its predecessors. The search moves single nodes to other
places with probability ∝ exp(τ · gain), τ rising to 1. The weight of an order is that of the best
parents that it allows: Σ_j max_{S⊆U_j} w_j(S). The maximum is computed for *every place that a node
could take*, over all variables, and not only for visited orders or among parents selected
beforehand; this is why good orders are found on dense graphs too.

That is cheap since predecessors change by one variable v at a time. Where v leaves and is no
parent, the best set stays. Where v enters, only sets with v are new: v added, or exchanged for a
parent; if neither gains, the best set stays. Otherwise hill climbing by additions, removals and
exchanges over all predecessors finds the next one (:mod:`svidag.search.parent_climbing`). Best sets
are cached by the set of predecessors, whose hash is the exclusive or of one random 64-bit word per
variable.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, no_type_check

import numba
import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.graph.extension import draw_linear_extensions
from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.prior import EdgePrior
from svidag.samplers.relocation import choose
from svidag.search.parent_climbing import (
    LEAST_GAIN,
    MIX,
    bit_of,
    block_weights,
    climb,
    empty_memory,
    useless_bits,
    work_space,
)

MOST_PARENTS = 24
"""Parents of one node that the search considers at most, beyond the required ones."""

CACHED_SETS = 2**19  # best sets in the cache, all nodes together
MAX_RECORDED = 2**18  # distinct best sets recorded at most

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What one search found.

    Attributes
    ----------
    order
        The best order, causes first.
    log_weight
        Σ_j max_S w_j(S) of that order, with the prior's factors of the order.
    nodes, parents
        Every parent set that was the best of its node given some predecessors.
    exact
        Their weights by the mechanism itself, where the search computed them; NaN elsewhere.
    density
        The mean number of parents of a node at the end of the search.
    """

    order: Int[np.ndarray, " m"]
    log_weight: float
    nodes: Int[np.ndarray, " T"]
    parents: Bool[np.ndarray, "T m"]
    exact: Float[np.ndarray, " T"]
    density: float


def search_orders(
    blocks: GaussianBlocks,
    prior: EdgePrior,
    *,
    powers: Float[np.ndarray, " sweeps"],
    rng: np.random.Generator,
) -> SearchResult:
    """Anneal one order from a random start, a sweep of m moves for each power.

    Examples
    --------
    >>> from svidag.prior import Prior
    >>> x = np.random.default_rng(0).standard_normal((99, 3))
    >>> x[:, 2] += x[:, 0]
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> blocks = GaussianBlocks.linear(LinearGaussian.from_values(x))
    >>> found = search_orders(blocks, Prior().bind("abc"), powers=np.ones(5),
    ...                       rng=np.random.default_rng(1))
    >>> bool(found.parents[(found.nodes == 2)][:, 0].any())
    True
    """
    m = len(prior.names)
    needed = int(prior.required.sum(axis=0).max())
    most = min(m - 1, MOST_PARENTS + needed)
    absent = np.where(prior.free, np.log1p(-prior.marginal), 0.0)
    weights = block_weights(blocks, prior, most)
    words = rng.integers(1, 2**63, size=m, dtype=np.int64).astype(np.uint64)
    cache = _empty_cache(m, most)
    memory, work = empty_memory(m), work_space(m, most, blocks.size)
    record = _empty_record(most)
    order = draw_linear_extensions(prior.required, 1, rng)[0].astype(np.int64)
    best = order.copy()
    after = absent.T - absent
    uniforms = rng.random((len(powers), m, 2))
    top, arrows = _anneal(
        order, best, weights, blocks.group, after, words, powers, uniforms, cache, memory, record,
        work,
    )  # fmt: skip
    nodes, sets, sizes, _, count = record
    T = int(count[0])
    parents = np.zeros((T, m), dtype=bool)
    inside = np.arange(sets.shape[1]) < sizes[:T, None]
    parents[np.nonzero(inside)[0], sets[:T][inside]] = True
    # `after` counts each pair by the half difference of its two directions; this is the other half.
    constant = 0.5 * absent.sum()
    unknown = np.full(T, np.nan)
    own = nodes[:T].copy()
    return SearchResult(best, float(top + constant), own, parents, unknown, arrows / m)


class SearchStart(NamedTuple):
    """What is a search's own: the power of each sweep, and its random numbers."""

    powers: Float[np.ndarray, " sweeps"]
    rng: np.random.Generator


def run_search(
    shared: tuple[GaussianBlocks, EdgePrior], own: SearchStart, alive: Callable[..., None]
) -> SearchResult:
    """One search over orders, as a task (:mod:`svidag.run.pools`)."""
    blocks, prior = shared
    # A search that is lost is run again from the same numbers.
    return search_orders(blocks, prior, powers=own.powers, rng=copy.deepcopy(own.rng))


def _empty_cache(m: int, most: int) -> tuple[np.ndarray, ...]:
    """An empty cache of best sets: hash of the predecessors, weight (NaN: none), size, members."""
    slots = 1 << max(8, min(14, (CACHED_SETS // m).bit_length() - 1))
    return (
        np.zeros((m, slots), dtype=np.uint64),
        np.full((m, slots), np.nan),
        np.zeros((m, slots), dtype=np.int64),
        np.zeros((m, slots, most + 1), dtype=np.int16),
    )


def _empty_record(most: int) -> tuple[np.ndarray, ...]:
    """An empty record of distinct best sets: node, members, size; a hash table; their number."""
    return (
        np.zeros(MAX_RECORDED, dtype=np.int64),
        np.zeros((MAX_RECORDED, most + 1), dtype=np.int16),
        np.zeros(MAX_RECORDED, dtype=np.int64),
        np.zeros(2 * MAX_RECORDED, dtype=np.uint64),
        np.zeros(1, dtype=np.int64),
    )


@no_type_check
@_compiled
def _record_set(j, parents, k, words, record):
    """Record a best set unless it was recorded before."""
    nodes, sets, sizes, seen, count = record
    word = np.uint64(j + 1) * MIX
    for a in range(k):
        word ^= words[parents[a]]
    slot = np.int64((word * MIX) >> np.uint64(20)) & (len(seen) - 1)
    while seen[slot] != 0:
        if seen[slot] == word:
            return
        slot = (slot + 1) & (len(seen) - 1)
    if count[0] < len(nodes):
        seen[slot] = word
        nodes[count[0]], sizes[count[0]] = j, k
        for a in range(k):
            sets[count[0], a] = parents[a]
        count[0] += 1


@no_type_check
@_compiled
def _best_after(j, v, enters, word, order, end, moving, k, score, weights, group, words, cache,
                memory, record, work, options, parents):  # fmt: skip
    """The best set of j after v enters or leaves its predecessors, the others being order[:end].

    `parents` holds the k best before and is changed; `moving`, the node that is being moved, does
    not count among order[:end]. Returns the number of parents and their weight.
    """
    at = k
    for a in range(k):
        if parents[a] == v:
            at = a
    if not enters and at == k:
        return k, score
    if not enters and weights[7][v, j]:
        return k, -np.inf
    arguments, values, sizes, sets = cache
    slot = np.int64((word * MIX) >> np.uint64(30)) & (arguments.shape[1] - 1)
    if arguments[j, slot] == word and not np.isnan(values[j, slot]):
        k = sizes[j, slot]
        for a in range(k):
            parents[a] = sets[j, slot, a]
        return k, values[j, slot]
    changes = True
    n = 0
    # First only v is tried, then all predecessors; a loop, so that the call is compiled once.
    for phase in range(0 if enters else 1, 2):
        if phase == 0:
            options[0] = v
            n = 1
            useless = useless_bits(j, parents, k, weights, group, words, memory, work)
            changes = useless[v >> 6] & bit_of(v) == 0
            if changes:
                before = score
                k, score = climb(
                    j, options, n, parents, k, True, weights, group, words, memory, work
                )
                changes = score > before + 0.5 * LEAST_GAIN
        elif changes:
            if not enters:
                k -= 1
                parents[at] = parents[k]
            n = 0
            for t in range(end):
                if order[t] != moving and order[t] != j:
                    options[n] = order[t]
                    n += 1
            if enters:
                options[n] = v
                n += 1
            k, score = climb(j, options, n, parents, k, False, weights, group, words, memory, work)
            _record_set(j, parents, k, words, record)
    arguments[j, slot], values[j, slot], sizes[j, slot] = word, score, k
    for a in range(k):
        sets[j, slot, a] = parents[a]
    return k, score


@no_type_check
@_compiled
def _walk(i, here, there, step, moves, order, after, scores, weights, groups, words, cache, memory,
          record, work, options, state, fresh):  # fmt: skip
    """Take i from place to place, in steps of 1 or −1, until `there` or where it may not go on.

    Without `moves` the gain of each place is written to `scores`, and nothing else changes; with
    it, i is moved. Returns the gain of the last place.
    """
    chosen, count, present, before = state
    arguments, values, sizes, sets = cache
    keys, known, _ = memory
    own_word, own_size, own_weight, passed = before[i], count[i], present[i], 0.0
    for a in range(own_size):
        fresh[1, a] = chosen[i, a]
    for t in range(here + step, there + step, step):
        k = order[t]
        size, weight = count[k], present[k]
        for a in range(size):
            fresh[0, a] = chosen[k, a]
        own_word ^= words[k]
        # Past k, i enters or leaves the predecessors of k, and k those of i.
        for turn in range(2):
            j, v = (k, i) if turn == 0 else (i, k)
            enters = (step == 1) == (turn == 1)
            word = before[k] ^ words[i] if turn == 0 else own_word
            n, now = (size, weight) if turn == 0 else (own_size, own_weight)
            parent, those = False, np.uint64(1)
            for a in range(n):
                parent = parent or fresh[turn, a] == v
                those ^= words[fresh[turn, a]]
            # Mostly nothing changes. That is found out here rather than by a call, which would
            # take several times as long, since numba counts references to all arrays passed.
            slot = np.int64((word * MIX) >> np.uint64(30)) & (arguments.shape[1] - 1)
            seen = arguments[j, slot] == word and not np.isnan(values[j, slot])
            at = np.int64((those * MIX) >> np.uint64(40)) & (keys.shape[1] - 1)
            bit = known[j, at, v >> 6] >> np.uint64(v & 63) & np.uint64(1)
            if enters and not seen and keys[j, at] == those and bit:
                arguments[j, slot], values[j, slot], sizes[j, slot] = word, now, n
                for a in range(n):
                    sets[j, slot, a] = fresh[turn, a]
            elif enters or parent:
                n, now = _best_after(
                    j, v, enters, word, order, t, i, n, now, weights, groups[j], words, cache,
                    memory, record, work, options, fresh[turn],
                )  # fmt: skip
            if turn == 0:
                size, weight = n, now
            else:
                own_size, own_weight = n, now
        if weight == -np.inf or own_weight == -np.inf:
            break
        passed += step * after[i, k] + weight - present[k]
        if moves:
            order[t - step], order[t] = k, i
            before[k] ^= words[i]
            count[k], present[k] = size, weight
            for a in range(size):
                chosen[k, a] = fresh[0, a]
        else:
            scores[t] = passed + own_weight - present[i]
    gain = passed + own_weight - present[i]
    if moves:
        before[i], count[i], present[i] = own_word, own_size, own_weight
        for a in range(own_size):
            chosen[i, a] = fresh[1, a]
    return gain


@no_type_check
@_compiled
def _first_sets(order, weights, groups, after, words, memory, record, work, options, state):
    """Best sets of every node for an order; returns the weight of the order up to a constant."""
    chosen, count, present, before = state
    required = weights[7]
    word, total = np.uint64(0), 0.0
    for t in range(len(order)):
        j = order[t]
        k = 0
        for i in range(len(order)):
            if required[i, j]:
                chosen[j, k] = i
                k += 1
        for s in range(t):
            options[s] = order[s]
            total += 0.5 * after[j, order[s]]
        count[j], present[j] = climb(
            j, options, t, chosen[j], k, False, weights, groups[j], words, memory, work
        )
        _record_set(j, chosen[j], count[j], words, record)
        before[j] = word
        total += present[j]
        word ^= words[j]
    return total


@no_type_check
@_compiled
def _anneal(order, best, weights, groups, after, words, powers, uniforms, cache, memory, record,
            work):  # fmt: skip
    """A sweep of m moves for each power; `best` becomes the best order after a sweep.

    Returns its weight, up to a constant, and how many arrows there were at the end.
    """
    m, most = len(order), cache[3].shape[2] - 1
    options = np.zeros(m, np.int64)
    chosen, before = np.zeros((m, most + 1), np.int64), np.zeros(m, np.uint64)
    count, present = np.zeros(m, np.int64), np.zeros(m)
    state = (chosen, count, present, before)
    fresh = np.zeros((2, most + 1), np.int64)
    scores, shares = np.empty(m), np.empty(m)
    energy = _first_sets(order, weights, groups, after, words, memory, record, work, options, state)
    top = energy
    best[:] = order
    for s in range(len(powers)):
        for u in range(m):
            here = int(uniforms[s, u, 0] * m)
            i = order[here]
            scores[:] = -np.inf
            scores[here] = 0.0
            # First the gain of every place is computed, then the node is moved: the same steps.
            for turn in range(3):
                moves, step = turn == 2, 1 if turn == 0 else -1
                end = m - 1 if turn == 0 else 0
                if moves:
                    end = choose(scores, powers[s], uniforms[s, u, 1], shares)
                    step = 1 if end > here else -1
                gain = _walk(
                    i, here, end, step, moves, order, after, scores, weights, groups, words, cache,
                    memory, record, work, options, state, fresh,
                )  # fmt: skip
                energy += gain if moves else 0.0
        if energy > top:
            top = energy
            best[:] = order
    return top, count.sum()
