"""Annealed search over orders, with the best parents of every node found on the way.

An order allows j the parents S ⊆ U_j among its predecessors. The search moves single nodes to other
places with probability ∝ exp(τ · gain), τ rising to 1. The weight of an order is that of the best
parents that it allows: Σ_j max_{S⊆U_j} w_j(S). The maximum is computed for *every place that a node
could take*, over all variables, and not only for visited orders or among parents selected
beforehand; this is why good orders are found on dense graphs too.

That is cheap since predecessors change by one variable v at a time. Where v leaves and is no
parent, the best set stays. Where v enters, only sets with v are new: v added, or exchanged for a
parent; if neither gains, the best set stays. Otherwise hill climbing by additions, removals and
exchanges over all predecessors finds the next one. Best sets are cached by the set of predecessors,
whose hash is the exclusive or of one random 64-bit word per variable.

Weights are those of a Gaussian model with a block of b features for each variable,

    w_j(S) = c(|S|) − ½ log|A_SS| − h(|S|) log(d_j − C_Sjᵀ A_SS⁻¹ C_Sj) + Σ_{i∈S} logit p_ij,

which is BGe for b = 1 (:mod:`svidag.mechanisms.gaussian_blocks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import numba
import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.graph.extension import draw_linear_extensions
from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.prior import EdgePrior
from svidag.samplers.relocation import choose

MOST_PARENTS = 24
"""Parents of one node that the search considers at most, beyond the required ones."""

LEAST_GAIN = 1e-9  # least gain of a change, so that rounding errors cause no endless loop
CACHED_SETS = 2**19  # best sets in the cache, all nodes together
MAX_RECORDED = 2**18  # distinct best sets recorded at most

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
_MIX = np.uint64(0x9E3779B97F4A7C15)


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
    odds = np.where(prior.free, prior.logit, np.where(prior.required, 0.0, -np.inf))
    weights = (*blocks.arrays(most), blocks.size, odds, prior.required)
    words = rng.integers(1, 2**63, size=m, dtype=np.int64).astype(np.uint64)
    cache = _empty_cache(m, most)
    record = _empty_record(most)
    order = draw_linear_extensions(prior.required, 1, rng)[0].astype(np.int64)
    best = order.copy()
    after = absent.T - absent
    uniforms = rng.random((len(powers), m, 2))
    top, arrows = _anneal(
        order, best, weights, blocks.group, after, words, powers, uniforms, cache, record
    )
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
def _append(j, v, k, parents, weights, group, factor, w):
    """Append the block of v to the Cholesky factor of A over the first k parents.

    Also extends w = L⁻¹ C_j. Returns ½ log of the factor by which the determinant grows.
    """
    A, C, b = weights[0], weights[1], weights[5]
    log_determinant = 0.0
    for e in range(b):
        row, f = k * b + e, v * b + e
        for t in range(row):
            column = parents[t // b] * b + t % b if t < k * b else v * b + t - k * b
            s = A[group, f, column]
            for u in range(t):
                s -= factor[row, u] * factor[t, u]
            factor[row, t] = s / factor[t, t]
        s = A[group, f, f]
        for u in range(row):
            s -= factor[row, u] ** 2
        factor[row, row] = np.sqrt(max(s, 1e-300))
        log_determinant += np.log(factor[row, row])
        s = C[group, f, j]
        for u in range(row):
            s -= factor[row, u] * w[u]
        w[row] = s / factor[row, row]
    return log_determinant


@no_type_check
@_compiled
def _extend_by_each(j, options, n, parents, k, weights, group, factor, w, out):
    """w_j(parents ∪ v) for each of n variables v into `out`; returns w_j(parents).

    One factorisation over the parents is used for all v.
    """
    d, c, h, b, odds = weights[2], weights[3], weights[4], weights[5], weights[6]
    base, prior, left = 0.0, 0.0, d[group, j]
    for a in range(k):
        base += _append(j, parents[a], a, parents, weights, group, factor, w)
        prior += odds[parents[a], j]
    for u in range(k * b):
        left -= w[u] ** 2
    for x in range(n):
        v = options[x]
        out[x] = -np.inf
        if odds[v, j] > -np.inf and k + 1 < c.shape[1]:
            both = base + _append(j, v, k, parents, weights, group, factor, w)
            rest = left
            for u in range(k * b, (k + 1) * b):
                rest -= w[u] ** 2
            out[x] = c[group, k + 1] - both - h[group, k + 1] * np.log(rest) + prior + odds[v, j]
    return c[group, k] - base - h[group, k] * np.log(left) + prior


@no_type_check
@_compiled
def _climb(j, options, n, parents, k, single, weights, group, work):
    """Change `parents` by the best addition, removal or exchange until none gains.

    Additions come from the first n entries of `options`. With `single`, only one change that adds
    the first of them is tried. Returns the number of parents and their weight.
    """
    factor, w, rest, out = work
    required = weights[7]
    n_outside = 0
    while True:
        n_outside = 0
        for x in range(n):
            inside = False
            for a in range(k):
                inside = inside or parents[a] == options[x]
            if not inside:
                options[n_outside], options[x] = options[x], options[n_outside]
                n_outside += 1
        # r = k: additions. r < k: without the r-th parent, alone or exchanged.
        score, top, added, removed = 0.0, 0.0, -1, -1
        for r in range(k, -1, -1):
            if r < k and required[parents[r], j]:
                continue
            q = 0
            for a in range(k):
                if a != r:
                    rest[q] = parents[a]
                    q += 1
            own = _extend_by_each(j, options, n_outside, rest, q, weights, group, factor, w, out)
            if r == k:
                score, top = own, own + LEAST_GAIN
            elif own > top and not single:
                top, added, removed = own, -1, r
            for x in range(n_outside):
                if out[x] > top:
                    top, added, removed = out[x], options[x], r
            if r == k and added >= 0 and not single:
                break  # additions are made before exchanges are tried
        if top == score + LEAST_GAIN:
            return k, score
        if removed < k:
            k -= 1
            parents[removed] = parents[k]
        if added >= 0:
            parents[k] = added
            k += 1
        if single:
            return k, top


@no_type_check
@_compiled
def _record_set(j, parents, k, words, record):
    """Record a best set unless it was recorded before."""
    nodes, sets, sizes, seen, count = record
    word = np.uint64(j + 1) * _MIX
    for a in range(k):
        word ^= words[parents[a]]
    slot = np.int64((word * _MIX) >> np.uint64(20)) & (len(seen) - 1)
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
                record, work, options, parents):  # fmt: skip
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
    slot = np.int64((word * _MIX) >> np.uint64(30)) & (arguments.shape[1] - 1)
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
            before = score
            k, score = _climb(j, options, n, parents, k, True, weights, group, work)
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
            k, score = _climb(j, options, n, parents, k, False, weights, group, work)
            _record_set(j, parents, k, words, record)
    arguments[j, slot], values[j, slot], sizes[j, slot] = word, score, k
    for a in range(k):
        sets[j, slot, a] = parents[a]
    return k, score


@no_type_check
@_compiled
def _after_passing(i, k, end, step, order, state, own, weights, groups, words, cache, record, work,
                   options, fresh):  # fmt: skip
    """Best sets of k and of i after i has moved past k, to the right (step 1) or left (−1).

    `own` is (word, number of parents and weight) of i before, its parents in fresh[1]. Those of k
    after come into fresh[0], those of i into fresh[1]. Returns both numbers and weights.
    """
    chosen, count, present, before = state
    size_k, size_i, weight_k, weight_i = count[k], own[1], present[k], own[2]
    for a in range(count[k]):
        fresh[0, a] = chosen[k, a]
    for turn in range(2):
        j, v = (k, i) if turn == 0 else (i, k)
        enters = (step == 1) == (turn == 1)
        word = before[k] ^ words[i] if turn == 0 else own[0]
        size, weight = _best_after(
            j, v, enters, word, order, end, i, size_k if turn == 0 else size_i,
            weight_k if turn == 0 else weight_i, weights, groups[j], words, cache, record, work,
            options, fresh[turn],
        )  # fmt: skip
        if turn == 0:
            size_k, weight_k = size, weight
        else:
            size_i, weight_i = size, weight
    return size_k, weight_k, size_i, weight_i


@no_type_check
@_compiled
def _first_sets(order, weights, groups, after, words, record, work, options, state):
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
        count[j], present[j] = _climb(j, options, t, chosen[j], k, False, weights, groups[j], work)
        _record_set(j, chosen[j], count[j], words, record)
        before[j] = word
        total += present[j]
        word ^= words[j]
    return total


@no_type_check
@_compiled
def _anneal(order, best, weights, groups, after, words, powers, uniforms, cache, record):
    """A sweep of m moves for each power; `best` becomes the best order after a sweep.

    Returns its weight, up to a constant, and how many arrows there were at the end.
    """
    m, most = len(order), cache[3].shape[2] - 1
    width = (most + 1) * weights[5]
    work = (np.zeros((width, width)), np.zeros(width), np.zeros(most + 1, np.int64), np.zeros(m))
    options = np.zeros(m, np.int64)
    chosen, before = np.zeros((m, most + 1), np.int64), np.zeros(m, np.uint64)
    count, present = np.zeros(m, np.int64), np.zeros(m)
    state = (chosen, count, present, before)
    fresh = np.zeros((2, most + 1), np.int64)
    scores, shares = np.empty(m), np.empty(m)
    energy = _first_sets(order, weights, groups, after, words, record, work, options, state)
    top = energy
    best[:] = order
    for s in range(len(powers)):
        for u in range(m):
            here = int(uniforms[s, u, 0] * m)
            i, there = order[here], here
            # First the gain of every place is computed, then the node is moved: the same steps.
            for step in (1, -1, 0):
                moves = step == 0
                if moves:
                    there = choose(scores, powers[s], uniforms[s, u, 1], shares)
                    step = 1 if there > here else -1
                elif step == 1:
                    scores[:] = -np.inf
                    scores[here] = 0.0
                own = (before[i], count[i], present[i])
                for a in range(count[i]):
                    fresh[1, a] = chosen[i, a]
                passed, t = 0.0, here
                while t != there if moves else 0 <= t + step < m:
                    k = order[t + step]
                    word = own[0] ^ words[k]
                    end = t + step
                    size_k, weight_k, size_i, weight_i = _after_passing(
                        i, k, end, step, order, state, (word, own[1], own[2]), weights, groups,
                        words, cache, record, work, options, fresh,
                    )  # fmt: skip
                    if weight_k == -np.inf or weight_i == -np.inf:
                        break
                    passed += step * after[i, k] + weight_k - present[k]
                    t += step
                    own = (word, size_i, weight_i)
                    if moves:
                        order[t - step], order[t] = k, i
                        before[k] ^= words[i]
                        count[k], present[k] = size_k, weight_k
                        for a in range(size_k):
                            chosen[k, a] = fresh[0, a]
                    else:
                        scores[t] = passed + weight_i - present[i]
                if moves and there != here:
                    energy += passed + own[2] - present[i]
                    before[i], count[i], present[i] = own
                    for a in range(count[i]):
                        chosen[i, a] = fresh[1, a]
        if energy > top:
            top = energy
            best[:] = order
    return top, count.sum()
