"""Backward elimination from linear regressions, one parent at a time.

With twenty parents it takes 30 µs; with a matrix inverse for every step NumPy takes 500 µs
(`python benchmarks/compiled.py elimination`).
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@no_type_check
@_compiled
def eliminate(products, members, outputs, least_gain, most):
    """Which of the members stay when those that explain least are taken out in turn.

    With P the inverse of the products of the members, β the coefficients of the outputs and V what
    is left of them, member i gains log(1 + β_i V⁻¹ β_iᵀ / P_ii); without it

        P − P_{·i} P_{i·} / P_ii,    β − P_{·i} β_i / P_ii,    V + β_iᵀ β_i / P_ii

    are what P, β and V were. It ends when all gain at least `least_gain` and at most `most` stay.
    """
    size = len(members)
    own, across = np.empty((size, size)), np.empty((size, len(outputs)))
    left = np.empty((len(outputs), len(outputs)))
    for a in range(size):
        for b in range(size):
            own[a, b] = products[members[a], members[b]]
        for b in range(len(outputs)):
            across[a, b] = products[members[a], outputs[b]]
    for a in range(len(outputs)):
        for b in range(len(outputs)):
            left[a, b] = products[outputs[a], outputs[b]]
    inverse = np.linalg.inv(own)
    beta = np.dot(inverse, across)
    left -= np.dot(across.T, beta)
    kept = np.ones(size, dtype=np.bool_)
    for staying in range(size, 0, -1):
        scaled = np.linalg.solve(left, beta.T)
        worst, smallest = -1, np.inf
        for k in range(size):
            if kept[k]:
                more = 0.0
                for b in range(len(outputs)):
                    more += beta[k, b] * scaled[b, k]
                gain = np.log1p(more / inverse[k, k])
                if gain < smallest:
                    worst, smallest = k, gain
        if worst < 0 or (smallest >= least_gain and staying <= most):
            break
        kept[worst] = False
        scale = 1.0 / inverse[worst, worst]
        column, row = inverse[:, worst].copy(), beta[worst].copy()
        for a in range(size):
            if kept[a]:
                for b in range(size):
                    inverse[a, b] -= scale * column[a] * column[b]
                for b in range(len(outputs)):
                    beta[a, b] -= scale * column[a] * row[b]
        for a in range(len(outputs)):
            for b in range(len(outputs)):
                left[a, b] += scale * row[a] * row[b]
    return kept


@no_type_check
@_compiled
def eliminate_families(products, group, parents, nodes, first, count, least_gain, most, kept):
    """`eliminate` for every family: each parent is one feature, each node one or several.

    Features of column j begin at ``first[j]``; ``count[j]`` of them stand for it where it is
    explained. Which parents stay is written into `kept`.
    """
    m = parents.shape[1]
    for b in range(len(nodes)):
        size = 0
        for i in range(m):
            size += parents[b, i]
        members, at = np.empty(size, np.int64), 0
        for i in range(m):
            if parents[b, i]:
                members[at] = first[i]
                at += 1
        j = nodes[b]
        outputs = first[j] + np.arange(count[j])
        g = group[first[j]]
        stays, at = eliminate(products[g], members, outputs, least_gain[b], most), 0
        for i in range(m):
            kept[b, i] = False
            if parents[b, i]:
                kept[b, i] = stays[at]
                at += 1
