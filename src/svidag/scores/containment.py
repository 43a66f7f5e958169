"""Sums over the parent sets that lie within given predecessors, in compiled code.

Sets of variables are rows of 64-bit words. A set S lies within U if S & ~U is zero in every word.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np
from jaxtyping import Bool, UInt8, UInt64

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")

NEGLIGIBLE = 40.0  # nats below the largest term at which a term is left out of a sum


def words(packed: UInt8[np.ndarray, "T bytes"]) -> UInt64[np.ndarray, "T words"]:
    """Rows of eight variables to a byte as rows of 64-bit words.

    Examples
    --------
    >>> words(np.packbits([[True] + 69 * [False]], axis=1)).shape
    (1, 2)
    """
    rows, width = packed.shape
    padded = np.zeros((rows, -(-width // 8) * 8), dtype=np.uint8)
    padded[:, :width] = packed
    return padded.view(np.uint64)


def members(sets: UInt64[np.ndarray, "T words"], m: int) -> Bool[np.ndarray, "T m"]:
    """Rows of 64-bit words as rows over m variables.

    Examples
    --------
    >>> one = np.eye(70, dtype=bool)[[3, 69]]
    >>> bool((members(words(np.packbits(one, axis=1)), 70) == one).all())
    True
    """
    return np.unpackbits(sets.view(np.uint8), axis=1, count=m).astype(bool)


@no_type_check
@_compiled
def inside(one, other):
    """Whether one set lies within another."""
    outside = np.uint64(0)
    for w in range(len(one)):
        outside |= one[w] & ~other[w]
    return outside == 0


@no_type_check
@_compiled
def log_sums(sets, weights, before, out):
    """log Σ exp w(S) over the sets within each of the predecessors, into `out`."""
    found = np.empty(len(sets))
    for s in range(len(before)):
        n, top = 0, -np.inf
        for t in range(len(sets)):
            if weights[t] > -np.inf and inside(sets[t], before[s]):
                found[n] = weights[t]
                top = max(top, weights[t])
                n += 1
        total = 0.0
        for k in range(n):
            if found[k] > top - NEGLIGIBLE:
                total += np.exp(found[k] - top)
        out[s] = top + np.log(total) if n else -np.inf


@no_type_check
@_compiled
def add_shares(sets, weights, before, least, peak, mean, room):
    """P(S | U) of every set for each of the predecessors U.

    `peak` becomes the largest log P(S | U) and `mean` the mean of P(S | U); `room` the union of the
    predecessors with log P(S | U) above −least. They must be −∞ and 0 on entry.
    """
    found, rows = np.empty(len(sets)), np.empty(len(sets), np.int64)
    seen, times = np.zeros(len(before), np.bool_), np.zeros(len(before))
    for s in range(len(before)):  # equal predecessors count once, with their number
        if not seen[s]:
            for t in range(s, len(before)):
                same = not seen[t]
                for w in range(before.shape[1]):
                    same = same and before[s, w] == before[t, w]
                if same:
                    seen[t] = True
                    times[s] += 1.0
    for s in range(len(before)):
        if times[s] == 0.0:
            continue
        n, top = 0, -np.inf
        for t in range(len(sets)):
            if inside(sets[t], before[s]):
                rows[n], found[n] = t, weights[t]
                top = max(top, weights[t])
                n += 1
        total = 0.0
        for k in range(n):
            if found[k] > top - NEGLIGIBLE:
                total += np.exp(found[k] - top)
        whole = top + np.log(total)
        for k in range(n if top > -np.inf else 0):
            t, share = rows[k], found[k] - whole
            peak[t] = max(peak[t], share)
            if share > -NEGLIGIBLE:
                mean[t] += times[s] / len(before) * np.exp(share)
            if share > -least:
                for w in range(before.shape[1]):
                    room[t, w] |= before[s, w]
