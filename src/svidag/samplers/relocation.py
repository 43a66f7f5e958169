"""Relocation: take a node out of the order and put it back at a place drawn from its conditional.

The paper's chain redraws a potential r_i from its prior and accepts or rejects; given the order of
the others only the place of i matters, and the conditional over all places is as cheap as one
proposal, so a move is never rejected. Sliding i past its neighbour k changes the predecessors of
i and k alone, by one bit each, and costs a look-up only where one is a candidate of the other.

Moves alone do not cross from one group of good orders to another that needs many nodes moved at
once. So each chain has several replicas (parallel tempering): level l samples the target to
the power τ_l, the last level the target itself. Neighbouring levels exchange their orders with
probability min(1, exp((τ_{l+1} − τ_l)(E_l − E_{l+1}))) where E is log p(D | order). They try so
several times in a sweep, the pairs that begin at even and at odd levels in turn: in turns an order
passes through the levels in fewer steps than at random (Syed et al. 2022).

For comparison, a node may be restricted to two places, its own and the next (a *swap* of
neighbours), or may not move at all.

Arrays: `order` lists causes first, `place` is its inverse, `masks[j]` holds the predecessors of j
among its candidates and `present[j]` is F_j of them; `tables` are those of
:func:`svidag.scores.lookup.compiled_tables`.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

from svidag.scores.lookup import FIRST, change_all, log_sum, prepare_move

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")

MOVES = ("relocation", "swap", "none")
"""How orders may move; compiled code receives the index."""
RELOCATION, SWAP, NONE = range(3)

EXCHANGES = 3
"""Exchanges tried in a sweep. Three instead of one: time times variance of edge probabilities was
0.80 to 0.83 of that with one, on three dense graphs with twelve variables."""

NEGLIGIBLE = 40.0  # nats below the best place at which a place is never taken


@no_type_check
@_compiled
def locate(order, tables, place, masks, present):
    """Fill `place`, `masks` and `present` for an order; returns log p(D | order) + constant."""
    bits, after = tables.subset_sums.bits, tables.subset_sums.after
    energy = 0.0
    for t in range(len(order)):
        j = order[t]
        place[j] = t
        masks[j] = 0
        for s in range(t):
            masks[j] |= bits[order[s], j]
            energy += 0.5 * after[j, order[s]]
        present[j] = log_sum(j, masks[j], tables)
        energy += present[j]
    return energy


@no_type_check
@_compiled
def pick(moves, order, uniform):
    """A node to move, the first place that it may take, and the one after the last."""
    m = len(order)
    if moves == SWAP:
        first = int(uniform * (m - 1))
        return order[first], first, first + 2
    return int(uniform * m), 0, m


@no_type_check
@_compiled
def compare_places(i, first, end, order, place, masks, present, subset_sums, prepared, scores):
    """log p(D | i at place t) − log p(D | order as it is), for first ≤ t < end, into `scores`.

    `prepared` has been filled by :func:`svidag.scores.lookup.prepare_move`; None where no node
    has sets outside the tabulated sums.
    """
    bits, turned, after = subset_sums.bits, subset_sums.turned, subset_sums.after
    sums, offsets = subset_sums.sums, subset_sums.offsets
    here, base = place[i], present[i]
    scores[here] = 0.0
    for step in (1, -1):
        own, at_own, passed = masks[i], base, 0.0
        for t in range(here + step, end if step == 1 else first - 1, step):
            k = order[t]
            passed += step * after[i, k]
            if bits[i, k]:
                if prepared is None:
                    passed += sums[offsets[k] + (masks[k] ^ bits[i, k])] - present[k]
                else:
                    passed += prepared[0, k] - present[k]
            if turned[i, k]:
                own ^= turned[i, k]
                at_own = sums[offsets[i] + (own & FIRST)]
                if prepared is not None and prepared[1, t] > -np.inf:
                    at_own = np.logaddexp(at_own, prepared[1, t])
            scores[t] = passed + at_own - base


@no_type_check
@_compiled
def choose(scores, power, uniform, weights):
    """Draw t with probability ∝ exp(power · scores[t]); `weights` is work space."""
    top = scores.max()
    total = 0.0
    last, weight = np.nan, 0.0
    for t in range(len(scores)):
        if scores[t] != last:  # past nodes that are no candidates the score stays as it is
            last = scores[t]
            below = power * (last - top)
            weight = np.exp(below) if below > -NEGLIGIBLE else 0.0
        weights[t] = weight
        total += weight
    left = uniform * total
    chosen = 0
    for t in range(len(scores)):
        if weights[t] > 0.0:
            chosen = t
            left -= weights[t]
            if left < 0.0:
                break
    return chosen


@no_type_check
@_compiled
def slide(i, there, order, place, masks, present, subset_sums, prepared):
    """Put node i at place `there`; `prepared` as above."""
    bits, turned, sums, offsets = (
        subset_sums.bits,
        subset_sums.turned,
        subset_sums.sums,
        subset_sums.offsets,
    )
    here = place[i]
    step = 1 if there > here else -1
    for t in range(here, there, step):
        k = order[t + step]
        order[t] = k
        place[k] = t
        if bits[i, k]:
            masks[k] ^= bits[i, k]
            if prepared is None:
                present[k] = sums[offsets[k] + masks[k]]
            else:
                present[k] = prepared[0, k]
        masks[i] ^= turned[i, k]
    present[i] = sums[offsets[i] + (masks[i] & FIRST)]
    if prepared is not None:
        present[i] = np.logaddexp(present[i], prepared[1, there])
    order[there] = i
    place[i] = there


@no_type_check
@_compiled
def add_edges(order, place, masks, present, tables, edges, changed):
    """Add P(i → j | order) = 1 − exp(F_j(U ∖ i) − F_j(U)) to `edges`.

    `changed` is work space.
    """
    bits = tables.subset_sums.bits
    for i in order:
        change_all(i, masks, present, tables, changed)
        for j in order[place[i] + 1 :]:
            if bits[i, j]:
                edges[i, j] -= np.expm1(
                    min(changed[j] - present[j], 0.0)
                )  # negligible terms are left out


@no_type_check
@_compiled
def exchange(v, orders, places, masks, present, energy):
    """Exchange the orders of level v and the next."""
    for state in (orders, places, masks):
        for t in range(orders.shape[1]):
            state[v, t], state[v + 1, t] = state[v + 1, t], state[v, t]
    for t in range(orders.shape[1]):
        present[v, t], present[v + 1, t] = present[v + 1, t], present[v, t]
    energy[v], energy[v + 1] = energy[v + 1], energy[v]


@no_type_check
@_compiled
def sweep(moves, orders, tables, powers, uniforms, swaps, edges, moved, exchanged, prepared):
    """Sweeps of m moves at each level of a ladder, with exchanges between them.

    `uniforms` [sweeps, levels, m, 2] chooses the node and its new place, `swaps` [sweeps,
    exchanges, levels] decides exchanges. The conditional edge probabilities at the last level after
    each sweep are added to `edges`. `moved` counts the moves of the last level, `exchanged` the
    exchanges of each level with the next.
    `prepared` [2, m] is work space; None where no node has sets outside the tabulated sums.
    """
    levels, m = orders.shape
    places, masks = np.empty_like(orders), np.empty_like(orders)
    present, energy = np.empty(orders.shape), np.empty(levels)
    scores, weights, subset_sums = np.empty(m), np.empty(m), tables.subset_sums
    for v in range(levels):
        energy[v] = locate(orders[v], tables, places[v], masks[v], present[v])
    active = 0 if moves == NONE else levels
    tries = swaps.shape[1]
    for s in range(len(uniforms)):
        for turn in range(tries):
            for v in range(active):
                order, place, mask, now = orders[v], places[v], masks[v], present[v]
                for u in range(turn * m // tries, (turn + 1) * m // tries):
                    i, first, end = pick(moves, order, uniforms[s, v, u, 0])
                    if prepared is not None:
                        prepare_move(i, place, mask, now, tables, prepared)
                    compare_places(
                        i, first, end, order, place, mask, now, subset_sums, prepared, scores
                    )
                    open_to = scores[first:end]
                    there = first + choose(open_to, powers[v], uniforms[s, v, u, 1], weights)
                    if v == levels - 1 and there != place[i]:
                        moved[0] += 1
                    energy[v] += scores[there]
                    slide(i, there, order, place, mask, now, subset_sums, prepared)
            for v in range((s * tries + turn) % 2, active - 1, 2):
                above = (powers[v + 1] - powers[v]) * (energy[v] - energy[v + 1])
                if np.log(swaps[s, turn, v]) < above:
                    exchanged[v] += 1
                    exchange(v, orders, places, masks, present, energy)
        add_edges(orders[-1], places[-1], masks[-1], present[-1], tables, edges, weights)
