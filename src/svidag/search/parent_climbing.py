"""The best parents of a node among given variables, by hill climbing; in compiled code.

Weights are those of a Gaussian model with a block of b features for each variable
(:mod:`svidag.mechanisms.gaussian_blocks`),

    w_j(S) = c(|S|) − ½ log|A_SS| − h(|S|) log(d_j − C_Sjᵀ A_SS⁻¹ C_Sj) + Σ_{i∈S} logit p_ij.

Most variables bring most sets of parents no gain, neither added to them nor exchanged for one. When
climbing comes to a set for the first time, all variables are tried, those that cannot gain by a
bound that takes no logarithm, and the useless ones are remembered, one bit each. So a variable that
has nothing to do with a node costs the search a look-up and no factorisation.

Arrays: `weights` is the tuple of :func:`block_weights`, `memory` that of :func:`empty_memory` and
`work` that of :func:`work_space`. `words` has a random word for each variable: the exclusive or of
several is the hash of a set.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.prior import EdgePrior

LEAST_GAIN = 1e-9
"""Least gain of a change, so that rounding errors cause no endless loop."""

ROUNDING = 1e-6  # nats by which a bound may be wrong
MEMORY_BITS = 2**29  # of the memory which variables are useless to which sets

MIX = np.uint64(0x9E3779B97F4A7C15)
"""Odd and near 2⁶⁴/φ: products spread over all bits."""
ALL = np.uint64(2**64 - 1)

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
_inlined = numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")


def block_weights(blocks: GaussianBlocks, prior: EdgePrior, most: int) -> tuple:
    """A, Cᵀ, d, c, h, b, log odds, required pairs, |A_vv| and ½ log|A_vv| of each variable."""
    odds = np.where(prior.free, prior.logit, np.where(prior.required, 0.0, -np.inf))
    sizes = blocks.log_sizes()
    return (*blocks.arrays(most), blocks.size, odds, prior.required, np.exp(2 * sizes), sizes)


def empty_memory(m: int) -> tuple[np.ndarray, ...]:
    """An empty memory of useless additions: hash of the parents, one bit a variable; work space."""
    slots = 1 << max(4, min(10, (MEMORY_BITS // m**2).bit_length() - 1))
    bits = np.zeros((m, slots, m // 64 + 1), np.uint64)
    return np.zeros((m, slots), np.uint64), bits, np.zeros(m, np.int64)


def work_space(m: int, most: int, size: int) -> tuple[np.ndarray, ...]:
    """Factor of A, L⁻¹C, two rows more of that length and one of inverses, parents, weights."""
    width = (most + 1) * size
    return (
        np.zeros((width, width)),
        np.zeros(width),
        np.zeros((3, width)),
        np.zeros(most + 1, np.int64),
        np.zeros(m),
    )


@no_type_check
@_compiled
def _append(j, v, k, parents, A, C, b, group, factor, w):
    """Append the block of v to the Cholesky factor of A over the first k parents.

    Also extends w = L⁻¹ C_j. Returns ½ log of the factor by which the determinant grows.
    """
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
        s = C[group, j, f]
        for u in range(row):
            s -= factor[row, u] * w[u]
        w[row] = s / factor[row, row]
    return log_determinant


@no_type_check
@_inlined
def _gain_at_most(v, j, k, parents, left, h, A, C, b, size, group, factor, inverse, w, turned):
    """An upper bound of −½ log s − h log(1 − q) for one more parent v, without a logarithm.

    s is the share of |A_vv| that the parents leave unexplained, and q the share of what they leave
    of j that v explains; −log(1 − q) ≤ q / (1 − q) and −log s ≤ 1/s − 1. `inverse` holds the
    inverse diagonal of `factor`; `turned` is work space. Blocks have one or two features.
    """
    first, second, between = 1.0, 1.0, 0.0  # what is left of A_vv
    along, across = 0.0, 0.0  # what is left of C_vj
    for e in range(b):
        f = v * b + e
        rest, product = A[group, f, f], C[group, j, f]
        for t in range(k * b):
            s = A[group, parents[t // b] * b + t % b, f]
            for u in range(t):
                s -= factor[t, u] * turned[e, u]
            turned[e, t] = s * inverse[t]
            rest -= turned[e, t] ** 2
            product -= turned[e, t] * w[t]
        if e == 0:
            first, along = rest, product
        else:
            second, across = rest, product
            between = A[group, f, f - 1]
            for t in range(k * b):
                between -= turned[0, t] * turned[1, t]
    determinant = first * second - between**2
    explained = along**2 * second - 2.0 * along * across * between + across**2 * first
    most = determinant * left
    if determinant <= 0.0 or explained >= most:  # rounding errors
        return np.inf
    return 0.5 * (size / determinant - 1.0) + h * explained / (most - explained)


@no_type_check
@_compiled
def _extend_by_each(j, options, n, parents, k, bar, weights, group, factor, w, spare, out):
    """w_j(parents ∪ v) for each of n variables v into `out`; returns w_j(parents).

    One factorisation over the parents is used for all v. Weights that are certainly below `bar`,
    or below w_j(parents) if that is NaN, are not computed: they become −∞.
    """
    A, C, d, c, h, b, odds, _, sizes, log_sizes = weights
    base, prior, left = 0.0, 0.0, d[group, j]
    for a in range(k):
        base += _append(j, parents[a], a, parents, A, C, b, group, factor, w)
        prior += odds[parents[a], j]
    for u in range(k * b):
        left -= w[u] ** 2
    own = c[group, k] - base - h[group, k] * np.log(left) + prior
    bar = own if np.isnan(bar) else bar
    if k + 1 >= c.shape[1]:
        out[:n] = -np.inf
        return own
    most, inverse, turned = h[group, k + 1], spare[0], spare[1:]
    for u in range(k * b):
        inverse[u] = 1.0 / factor[u, u]
    without = c[group, k + 1] - base - most * np.log(left) + prior
    for x in range(n):
        v = options[x]
        out[x] = -np.inf
        known = without + odds[v, j] - log_sizes[group, v]
        if known == -np.inf:
            continue
        gain = _gain_at_most(
            v, j, k, parents, left, most, A, C, b, sizes[group, v], group, factor, inverse, w,
            turned,
        )  # fmt: skip
        if known + gain < bar - ROUNDING:
            continue
        both = base + _append(j, v, k, parents, A, C, b, group, factor, w)
        rest = left
        for u in range(k * b, (k + 1) * b):
            rest -= w[u] ** 2
        out[x] = c[group, k + 1] - both - most * np.log(rest) + prior + odds[v, j]
    return own


@no_type_check
@_compiled
def _without(parents, k, r, rest):
    """The parents without the r-th, into `rest`; returns how many they are."""
    q = 0
    for a in range(k):
        if a != r:
            rest[q] = parents[a]
            q += 1
    return q


@no_type_check
@_compiled
def _remember(j, parents, k, useless, weights, group, everyone, work):
    """Find the variables that bring these parents of j no gain, wherever they are in the order.

    Neither added to the parents nor exchanged for one of them.
    """
    factor, w, spare, rest, out = work
    n = 0
    for v in range(len(everyone)):
        inside = v == j
        for a in range(k):
            inside = inside or parents[a] == v
        if not inside:
            everyone[n] = v
            n += 1
    useless[:] = ALL
    score = np.nan
    for r in range(k, -1, -1):
        if r == k or not weights[7][parents[r], j]:
            q = _without(parents, k, r, rest)
            own = _extend_by_each(
                j, everyone, n, rest, q, score, weights, group, factor, w, spare, out
            )
            score = own if r == k else score
            for x in range(n):
                if out[x] > score + LEAST_GAIN:
                    useless[everyone[x] >> 6] &= ~bit_of(everyone[x])


@no_type_check
@_inlined
def bit_of(v):
    """The bit of a variable in its word of 64."""
    return np.uint64(1) << np.uint64(v & 63)


@no_type_check
@_inlined
def useless_bits(j, parents, k, weights, group, words, memory, work):
    """Bits of the variables that bring this set of parents of j no gain; remembered."""
    keys, known, everyone = memory
    word = np.uint64(1)
    for a in range(k):
        word ^= words[parents[a]]
    slot = np.int64((word * MIX) >> np.uint64(40)) & (keys.shape[1] - 1)
    if keys[j, slot] != word:
        keys[j, slot] = word
        _remember(j, parents, k, known[j, slot], weights, group, everyone, work)
    return known[j, slot]


@no_type_check
@_compiled
def climb(j, options, n, parents, k, single, weights, group, words, memory, work):
    """Change `parents` by the best addition, removal or exchange until none gains.

    Additions come from the first n entries of `options`. With `single`, only one change that adds
    the first of them is tried. Returns the number of parents and their weight.
    """
    factor, w, spare, rest, out = work
    required = weights[7]
    n_outside = 0
    while True:
        useless = useless_bits(j, parents, k, weights, group, words, memory, work)
        n_outside = 0
        for x in range(n):
            inside = useless[options[x] >> 6] & bit_of(options[x]) != 0
            for a in range(k):
                inside = inside or parents[a] == options[x]
            if not inside:
                options[n_outside], options[x] = options[x], options[n_outside]
                n_outside += 1
        # r = k: additions. r < k: without the r-th parent, alone or exchanged.
        score, top, added, removed = np.nan, 0.0, -1, -1
        for r in range(k, -1, -1):
            if r < k and required[parents[r], j]:
                continue
            q = _without(parents, k, r, rest)
            own = _extend_by_each(
                j, options, n_outside, rest, q, score, weights, group, factor, w, spare, out
            )
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
