"""Moves over orders that know only kept parent sets, compiled.

The target is Π_v g(order_v)^τ_v over the replicas of a ladder, with g the product over nodes of the
sums over kept sets (:mod:`svidag.variational.kept_sets`). A step takes one node of one replica to a
place drawn from its conditional, or exchanges two neighbouring replicas by Metropolis; which of
these, is chosen at random afresh each time, so that any number of steps is reversible.

Arrays: `columns[j]` holds the predecessors of j as bits and `present[j]` the log sum over the kept
sets of j within them. `sums` is (words, weights, offsets, unions, arguments, values): the kept sets
packed, by node and falling weight; their union by node; and remembered sums with their arguments.
`related[i, k]` says whether i is in a kept set of k, `after[i, k]` what the prior gives for i to
come after k rather than before it.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np

from svidag.samplers.relocation import NONE, SWAP, choose
from svidag.scores.containment import inside

MEMO = 8192  # sums remembered of each node, a power of two
NEGLIGIBLE = 25.0  # nats below the largest term at which a sum of weights is cut off

MIX = np.uint64(0x9E3779B97F4A7C15)  # odd and near 2⁶⁴/φ: products spread over all bits

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@no_type_check
@_compiled
def walk(moves, replicas, sums, related, after, powers, uniforms):
    """Take steps with every ladder [levels, m] of `replicas`; `uniforms` has four for each step."""
    K, levels, m = replicas.shape
    columns = np.zeros((levels, m, sums[0].shape[1]), dtype=np.uint64)
    present, energy = np.empty((levels, m)), np.empty(levels)
    scores, weights = np.empty(m), np.empty(m)
    exchanges = 0.0 if levels == 1 else 0.5 * levels / (levels + m)
    for k in range(0 if moves == NONE else K):
        orders = replicas[k]
        for v in range(levels):
            energy[v] = _locate(orders[v], columns[v], present[v], sums, after)
        for u in range(uniforms.shape[1]):
            kind, level, node, last = uniforms[k, u]
            if kind < exchanges:
                v = int(level * (levels - 1))
                if np.log(last) < (powers[v + 1] - powers[v]) * (energy[v] - energy[v + 1]):
                    _exchange(v, orders, columns, present, energy)
            else:
                # Half the moves are the last level's; the flatter ones ask for sums never met.
                v = levels - 1 if level < 0.5 else int((2 * level - 1) * (levels - 1))
                here, first, end = _window(moves, node, m)
                _compare_places(
                    here,
                    first,
                    end,
                    orders[v],
                    columns[v],
                    present[v],
                    sums,
                    related,
                    after,
                    scores,
                )
                there = first + choose(scores[first:end], powers[v], last, weights)
                energy[v] += scores[there]
                _slide(here, there, orders[v], columns[v], present[v], sums, related)


@no_type_check
@_compiled
def _window(moves, uniform, m):
    """The place of a node to move, the first that it may take, and the one after the last."""
    if moves == SWAP:
        here = int(uniform * (m - 1))
        return here, here, here + 2
    return int(uniform * m), 0, m


@no_type_check
@_compiled
def condition(nodes, columns, sets, words, weights, offsets, uniforms, log_sum, edges, chosen):
    """For each node and column: the log sum, each edge's share of it, and a set drawn by weight."""
    for p in range(len(nodes)):
        j = nodes[p]
        log_sum[p] = _log_sum(j, columns[p], words, weights, offsets)
        left = uniforms[p]
        for t in range(offsets[j], offsets[j + 1]):
            if log_sum[p] - weights[t] > NEGLIGIBLE:
                break
            if inside(words[t], columns[p]):
                share = np.exp(weights[t] - log_sum[p])
                if left >= 0.0:
                    chosen[p] = t
                left -= share
                for i in range(edges.shape[1]):
                    if sets[t, i]:
                        edges[p, i] += share


@no_type_check
@_compiled
def draw(nodes, columns, words, weights, offsets, uniforms, chosen):
    """For each node and column: as many sets, drawn by weight, as there are rising uniforms."""
    for p in range(len(nodes)):
        j = nodes[p]
        log_sum = _log_sum(j, columns[p], words, weights, offsets)
        passed, d = 0.0, 0
        for t in range(offsets[j], offsets[j + 1]):
            if log_sum - weights[t] > NEGLIGIBLE or d == uniforms.shape[1]:
                break
            if inside(words[t], columns[p]):
                passed += np.exp(weights[t] - log_sum)
                chosen[p, d:] = t  # the last one takes what rounding leaves
                while d < uniforms.shape[1] and uniforms[p, d] < passed:
                    d += 1


@no_type_check
@_compiled
def _log_sum(j, column, words, weights, offsets):
    """log Σ exp w over the kept sets of j within the column; they come by falling weight."""
    top, total = -np.inf, 0.0
    for t in range(offsets[j], offsets[j + 1]):
        if top - weights[t] > NEGLIGIBLE:
            break
        if inside(words[t], column):
            if total == 0.0:
                top = weights[t]
            total += np.exp(weights[t] - top)
    return top + np.log(total)


@no_type_check
@_compiled
def _memoised_log_sum(j, column, sums):
    """The same, looked up where the last column at the same address agreed on all that matters."""
    words, weights, offsets, unions, arguments, values = sums
    address = np.uint64(0)
    for w in range(len(column)):
        address = (address ^ (column[w] & unions[j, w])) * MIX
    slot = (address >> np.uint64(40)) & np.uint64(MEMO - 1)
    known = not np.isnan(values[j, slot])
    for w in range(len(column)):
        if arguments[j, slot, w] != column[w] & unions[j, w]:
            known = False
            arguments[j, slot, w] = column[w] & unions[j, w]
    if not known:
        values[j, slot] = _log_sum(j, column, words, weights, offsets)
    return values[j, slot]


@no_type_check
@_compiled
def _locate(order, columns, present, sums, after):
    """Fill `columns` and `present` for an order; log g of it up to a constant."""
    columns[:] = np.uint64(0)
    energy = 0.0
    for t in range(len(order)):
        j = order[t]
        if t > 0:
            columns[j] = columns[order[t - 1]]
            _toggle(columns[j], order[t - 1])
        for s in range(t):
            energy += 0.5 * after[j, order[s]]
        present[j] = _memoised_log_sum(j, columns[j], sums)
        energy += present[j]
    return energy


@no_type_check
@_compiled
def _toggle(column, i):
    column[i // 64] ^= np.uint64(1) << np.uint64(i % 64)


@no_type_check
@_compiled
def _compare_places(here, first, end, order, columns, present, sums, related, after, scores):
    """log g with the node at `here` moved to each place before `end`, minus log g as it is."""
    i = order[here]
    scores[here] = 0.0
    for step in (1, -1):
        own, at_own, passed = columns[i].copy(), present[i], 0.0
        t = here + step
        while first <= t < end:
            k = order[t]
            # Past k, the node gains (to the right) or loses (to the left) it as a predecessor.
            passed += step * after[i, k]
            if related[i, k]:
                _toggle(columns[k], i)
                passed += _memoised_log_sum(k, columns[k], sums) - present[k]
                _toggle(columns[k], i)
            _toggle(own, k)
            if related[k, i]:
                at_own = _memoised_log_sum(i, own, sums)
            scores[t] = passed + at_own - present[i]
            t += step


@no_type_check
@_compiled
def _slide(here, there, order, columns, present, sums, related):
    i = order[here]
    step = 1 if there > here else -1
    for t in range(here, there, step):
        k = order[t + step]
        order[t] = k
        _toggle(columns[k], i)
        _toggle(columns[i], k)
        if related[i, k]:
            present[k] = _memoised_log_sum(k, columns[k], sums)
    order[there] = i
    present[i] = _memoised_log_sum(i, columns[i], sums)


@no_type_check
@_compiled
def _exchange(v, orders, columns, present, energy):
    """Let replica v and the next change places."""
    for t in range(orders.shape[1]):
        orders[v, t], orders[v + 1, t] = orders[v + 1, t], orders[v, t]
        present[v, t], present[v + 1, t] = present[v + 1, t], present[v, t]
        for w in range(columns.shape[2]):
            columns[v, t, w], columns[v + 1, t, w] = columns[v + 1, t, w], columns[v, t, w]
    energy[v], energy[v + 1] = energy[v + 1], energy[v]
