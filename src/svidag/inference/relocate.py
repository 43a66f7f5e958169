"""Relocation: take a node out of the order and put it back at a place drawn from its conditional.

The paper's chain redraws a potential r_i from its prior and accepts or rejects; given the order of
the others only the place of i matters, and the conditional over all places is as cheap as one
proposal, so a move is never rejected. Sliding i past its neighbour k changes the predecessors of
i and k alone, by one bit each.

Arrays: `order` lists causes first, `place` is its inverse, `masks[j]` holds the predecessors of j
among its candidates; `sums`, `offsets`, `bits` and `absent` are those of
:class:`svidag.scores.ScoreTables`.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@no_type_check
@_compiled
def locate(order, bits, place, masks):
    """Fill `place` and `masks` for an order."""
    for t in range(len(order)):
        j = order[t]
        place[j] = t
        masks[j] = 0
        for s in range(t):
            masks[j] |= bits[order[s], j]


@no_type_check
@_compiled
def evidence(order, masks, sums, offsets, absent):
    """log p(D | order)."""
    total = 0.0
    for t in range(len(order)):
        j = order[t]
        total += sums[offsets[j] + masks[j]]
        for s in range(t):
            total += absent[order[s], j]
    return total


@no_type_check
@_compiled
def compare_places(i, order, place, masks, sums, offsets, bits, absent, scores):
    """log p(D | i at place t) − log p(D | order as it is), for every place t, into `scores`."""
    here = place[i]
    base = sums[offsets[i] + masks[i]]
    scores[here] = 0.0
    own, passed = masks[i], 0.0
    for t in range(here + 1, len(order)):
        k = order[t]
        at = offsets[k]
        passed += absent[k, i] - absent[i, k]
        passed += sums[at + (masks[k] & ~bits[i, k])] - sums[at + masks[k]]
        own |= bits[k, i]
        scores[t] = passed + sums[offsets[i] + own] - base
    own, passed = masks[i], 0.0
    for t in range(here - 1, -1, -1):
        k = order[t]
        at = offsets[k]
        passed += absent[i, k] - absent[k, i]
        passed += sums[at + (masks[k] | bits[i, k])] - sums[at + masks[k]]
        own &= ~bits[k, i]
        scores[t] = passed + sums[offsets[i] + own] - base


@no_type_check
@_compiled
def choose(scores, power, uniform):
    """Draw t with probability ∝ exp(power · scores[t])."""
    top = scores.max()
    total = 0.0
    for t in range(len(scores)):
        scores[t] = np.exp(power * (scores[t] - top))
        total += scores[t]
    left = uniform * total
    last = 0
    for t in range(len(scores)):
        if scores[t] > 0.0:
            last = t
            left -= scores[t]
            if left < 0.0:
                break
    return last


@no_type_check
@_compiled
def slide(i, there, order, place, masks, bits):
    """Put node i at place `there`."""
    here = place[i]
    step = 1 if there > here else -1
    for t in range(here, there, step):
        k = order[t + step]
        order[t] = k
        place[k] = t
        if step == 1:
            masks[k] &= ~bits[i, k]
            masks[i] |= bits[k, i]
        else:
            masks[k] |= bits[i, k]
            masks[i] &= ~bits[k, i]
    order[there] = i
    place[i] = there


@no_type_check
@_compiled
def add_edges(order, masks, sums, offsets, bits, edges):
    """Add P(i → j | order) = 1 − exp(F_j(U ∖ i) − F_j(U)) to `edges`."""
    for t in range(len(order)):
        j = order[t]
        full = sums[offsets[j] + masks[j]]
        for s in range(t):
            bit = bits[order[s], j]
            if bit:
                edges[order[s], j] -= np.expm1(sums[offsets[j] + (masks[j] ^ bit)] - full)


@no_type_check
@_compiled
def sweep(order, place, masks, sums, offsets, bits, absent, powers, uniforms, collect, edges):
    """One sweep per entry of `powers`: m relocations; returns how many changed the order.

    `uniforms` has a row per move: which node, and where to. With `collect`, the conditional edge
    probabilities after each sweep are added to `edges`.
    """
    m = len(order)
    scores = np.empty(m)
    moved = 0
    for s in range(len(powers)):
        for u in range(s * m, (s + 1) * m):
            i = int(uniforms[u, 0] * m)
            compare_places(i, order, place, masks, sums, offsets, bits, absent, scores)
            there = choose(scores, powers[s], uniforms[u, 1])
            moved += there != place[i]
            slide(i, there, order, place, masks, bits)
        if collect:
            add_edges(order, masks, sums, offsets, bits, edges)
    return moved


@no_type_check
@_compiled
def draw_sets(j, orders, bits, weights, sums, ranked, uniforms, drawn):
    """For each order, draw a parent set of j: the sets by falling weight, those that fit."""
    for s in range(len(orders)):
        before = 0
        for t in range(orders.shape[1]):
            if orders[s, t] == j:
                break
            before |= bits[orders[s, t], j]
        left = uniforms[s]
        for r in range(len(ranked)):
            if ranked[r] & ~before == 0:
                drawn[s] = ranked[r]
                left -= np.exp(weights[ranked[r]] - sums[before])
                if left < 0.0:
                    break
