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
_inlined = numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")
# A move takes a fifth less time than with calls, which count references to all arrays passed.

MOVES = ("relocation", "swap", "none")
"""How orders may move; compiled code receives the index."""
RELOCATION, SWAP, NONE = range(3)

EXCHANGES = 3
"""Exchanges tried in a sweep. Three instead of one: time times variance of edge probabilities was
0.80 to 0.83 of that with one, on three dense graphs with twelve variables."""

SCAN = 8
"""More than the root of this times m related nodes are found by a pass over the order, fewer are
sorted by their places."""

NEGLIGIBLE = 40.0  # nats below the best place at which a place is never taken


@no_type_check
@_compiled
def locate(order, tables, place, masks, present):
    """Fill `place`, `masks` and `present` for an order; returns log p(D | order) + constant."""
    begin, links, after, _ = tables.relations
    for t in range(len(order)):
        place[order[t]] = t
    energy = 0.0
    for j in order:
        masks[j] = 0
        for u in range(begin[j], begin[j + 1]):
            if place[links[u, 0]] < place[j]:
                masks[j] |= links[u, 2]
                energy += 0.5 * after[u]
        present[j] = log_sum(j, masks[j], tables)
        energy += present[j]
    return energy


@no_type_check
@_inlined
def pick(moves, order, uniform):
    """A node to move, the first place that it may take, and the one after the last."""
    m = len(order)
    if moves == SWAP:
        first = int(uniform * (m - 1))
        return order[first], first, first + 2
    return int(uniform * m), 0, m


@no_type_check
@_inlined
def rank_related(i, order, place, relations, found, spots):
    """The relations of i by the places of its related nodes, into `found`; returns their number.

    `spots` becomes those places.
    """
    begin, links, _, number = relations
    first, count = begin[i], begin[i + 1] - begin[i]
    if count * count > SCAN * len(order):
        x = 0
        for t in range(len(order)):
            found[x], spots[x] = number[i, order[t]], t
            x += found[x] >= 0
    else:
        for n in range(count):
            at, x = place[links[first + n, 0]], n
            while x > 0 and spots[x - 1] > at:
                found[x], spots[x] = found[x - 1], spots[x - 1]
                x -= 1
            found[x], spots[x] = first + n, at
    return count


@no_type_check
@_inlined
def compare_stretches(i, own, found, masks, present, subset_sums, relations, prepared, scores):
    """log p(D | i in stretch x) − log p(D | order as it is) into `scores`, for every stretch x.

    Stretch x are the places after x of the nodes to which i is related; i is in stretch `own`.
    `prepared` has been filled by :func:`svidag.scores.lookup.prepare_move`; None where no node has
    sets outside the tabulated sums.
    """
    sums, offsets, _ = subset_sums
    _, links, after, _ = relations
    base = present[i]
    scores[own] = 0.0
    for step in (1, -1):
        mask, at_own, passed = masks[i], base, 0.0
        for x in range(own, len(found)) if step == 1 else range(own - 1, -1, -1):
            u = found[x]
            k, bit, turned = links[u, 0], links[u, 1], links[u, 2]
            passed += step * after[u]
            mask ^= turned
            # Where a bit is 0, the look-up gives what was there: cheaper than to ask for it.
            if prepared is None:
                passed += sums[offsets[k] + (masks[k] ^ bit)] - present[k]
                at_own = sums[offsets[i] + mask]
            else:
                if bit:
                    passed += prepared[0, k] - present[k]
                if turned:
                    at_own = sums[offsets[i] + (mask & FIRST)]
                    others = prepared[1, x + (step + 1) // 2]
                    if others > -np.inf:
                        at_own = np.logaddexp(at_own, others)
            scores[x + (step + 1) // 2] = passed + at_own - base


@no_type_check
@_inlined
def choose_place(scores, own, spots, first, end, power, uniform, weights, begins):
    """Draw a place between `first` and `end` with probability ∝ exp(power · score).

    Returns the place, and the stretch that it is in. `weights` and `begins` are work space.
    """
    count, total, top = len(spots), 0.0, -np.inf
    begins[0], begins[count + 1] = first, end
    for x in range(count):
        begins[x + 1] = min(max(spots[x] + (x < own), first), end)
    for x in range(count + 1):
        if begins[x] < begins[x + 1]:
            top = max(top, scores[x])
    for x in range(count + 1):
        below = power * (scores[x] - top)
        weights[x] = 0.0
        if below > -NEGLIGIBLE and begins[x] < begins[x + 1]:
            weights[x] = (begins[x + 1] - begins[x]) * np.exp(below)
            total += weights[x]
    left, chosen, share = uniform * total, 0, 0.0
    for x in range(count + 1):
        if weights[x] > 0.0:
            chosen, share = x, left / weights[x]
            left -= weights[x]
            if left < 0.0:
                break
    width = begins[chosen + 1] - begins[chosen]
    return begins[chosen] + min(int(share * width), width - 1), chosen


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
@_inlined
def slide(
    i, there, own, stretch, found, order, place, masks, present, subset_sums, relations, prepared
):
    """Put node i from stretch `own` to place `there` in `stretch`; the others as above."""
    sums, offsets, _ = subset_sums
    links = relations.links
    for x in range(min(own, stretch), max(own, stretch)):
        k, bit, turned = links[found[x]]
        if bit:
            masks[k] ^= bit
            if prepared is None:
                present[k] = sums[offsets[k] + masks[k]]
            else:
                present[k] = prepared[0, k]
        masks[i] ^= turned
    present[i] = sums[offsets[i] + (masks[i] & FIRST)]
    if prepared is not None:
        present[i] = np.logaddexp(present[i], prepared[1, stretch])
    here = place[i]
    step = 1 if there > here else -1
    for t in range(here, there, step):
        order[t] = order[t + step]
        place[order[t]] = t
    order[there] = i
    place[i] = there


@no_type_check
@_compiled
def add_edges(order, place, masks, present, tables, edges, changed):
    """Add P(i → j | order) = 1 − exp(F_j(U ∖ i) − F_j(U)) to `edges`.

    `changed` is work space.
    """
    begin, links, _, _ = tables.relations
    for i in order:
        change_all(i, masks, present, tables, changed)
        for u in range(begin[i], begin[i + 1]):
            j = links[u, 0]
            if links[u, 1] and place[j] > place[i]:
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
    scores, weights, relations = np.empty(m), np.empty(m), tables.relations
    subset_sums = tables.subset_sums
    every, at, begins = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m + 1, np.int64)
    rank = np.empty(m, np.int64)
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
                    count = rank_related(i, order, place, relations, every, at)
                    found, spots = every[:count], at[:count]
                    own = np.searchsorted(spots, place[i])
                    if prepared is not None:
                        prepare_move(i, found, mask, now, tables, rank, prepared)
                    compare_stretches(
                        i, own, found, mask, now, subset_sums, relations, prepared, scores
                    )
                    there, stretch = choose_place(
                        scores, own, spots, first, end, powers[v], uniforms[s, v, u, 1], weights,
                        begins,
                    )  # fmt: skip
                    if v == levels - 1 and there != place[i]:
                        moved[0] += 1
                    energy[v] += scores[stretch]
                    slide(
                        i, there, own, stretch, found, order, place, mask, now, subset_sums,
                        relations, prepared,
                    )  # fmt: skip
            for v in range((s * tries + turn) % 2, active - 1, 2):
                above = (powers[v + 1] - powers[v]) * (energy[v] - energy[v + 1])
                if np.log(swaps[s, turn, v]) < above:
                    exchanged[v] += 1
                    exchange(v, orders, places, masks, present, energy)
        add_edges(orders[-1], places[-1], masks[-1], present[-1], tables, edges, weights)
