"""F_j(U) inside compiled code: laid out over first candidates, the rest added and remembered.

`tables` is what :func:`compiled_tables` gives, with a memory of its own for every thread: it holds
values of a pure function by their arguments, so what it has seen changes no result.
"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numba
import numpy as np

from svidag.scores.tables import MOST_LAID_OUT, NodeTable, ScoreTables

NEGLIGIBLE = 10.0  # nats below a sum at which all that is left to add is left out

TINY = 1e-250  # relative weights below are added as logarithms
FAR = 30.0  # nats between two terms at which a sum of both is one of them
NEARLY_ALL = 0.999  # of a sum; what is left when so much is taken away is summed anew
MUCH = 2.0  # nats above the scale of a sum at which a weight becomes the scale

_SLOTS = 2**20  # sums remembered by a thread, all nodes together
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd and near 2⁶⁴/φ: products spread over all bits
FIRST = (1 << MOST_LAID_OUT) - 1
"""The mask of all first candidates."""

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


class LaidOut(NamedTuple):
    """What most look-ups read: sums over first candidates.

    Attributes
    ----------
    sums, offsets
        F_j over first candidates, and where each node's part begins.
    bits, turned
        The bit of i for k, and of k for i, in row i.
    after
        What i gains from the prior by coming after k rather than before it.
    others
        Whether a node has sets with other than first candidates.
    """

    sums: np.ndarray
    offsets: np.ndarray
    bits: np.ndarray
    turned: np.ndarray
    after: np.ndarray
    others: np.ndarray


class Listed(NamedTuple):
    """Sets with other than first candidates, where there are any.

    Attributes
    ----------
    masks, weights, tails
        The sets, grouped by the last of their other candidates, by falling weight in each group;
        and the log of the summed weight from each on to the end of its group.
    key, begin, groups
        For each group the bit of that candidate, where its sets begin, and for each node where its
        groups begin.
    members, member_begin
        The members of each set, and where they begin.
    top, linear
        The largest weight of each node, and weights relative to it, not as logarithms.
    with_masks, with_weights, pairs
        The same sets once more for each of their members, by falling weight; entry j·m + i of
        `pairs` and the next are where those of j with i begin and end.
    arguments, values
        Remembered sums.
    """

    masks: np.ndarray
    weights: np.ndarray
    tails: np.ndarray
    key: np.ndarray
    begin: np.ndarray
    groups: np.ndarray
    members: np.ndarray
    member_begin: np.ndarray
    top: np.ndarray
    linear: np.ndarray
    with_masks: np.ndarray
    with_weights: np.ndarray
    pairs: np.ndarray
    arguments: np.ndarray
    values: np.ndarray


class CompiledTables(NamedTuple):
    """The arrays of score tables as compiled code reads them.

    In two parts, since numba counts a reference to every array that a function is given: a move
    that is given all of them takes twice as long as one that is given those laid out.
    """

    laid_out: LaidOut
    listed: Listed

    def room(self) -> np.ndarray | None:
        """What moves need to work in; None where all is laid out."""
        others = self.laid_out.others
        return np.empty((2, len(others))) if others.any() else None


def compiled_tables(tables: ScoreTables) -> CompiledTables:
    """Lay score tables out for compiled code, with room to remember sums in."""
    found = [_groups(node) for node in tables.nodes]
    listed = [group for groups in found for group in groups]
    masks = np.concatenate([np.empty(0, np.int64), *(masks for _, masks, _, _ in listed)])
    weights = np.concatenate([np.empty(0), *(weights for _, _, weights, _ in listed)])
    counts = [sum(len(group[1]) for group in groups) for groups in found]
    own = np.repeat(np.arange(tables.m), counts)
    top = np.full(tables.m, -np.inf)
    np.maximum.at(top, own, weights)
    members, member_begin = _members(tables, own, masks)
    with_masks, with_weights, pairs = _by_member(tables)
    others = np.array([len(groups) > 0 for groups in found])
    slots = 1 << max(10, min(16, (_SLOTS // max(1, int(others.sum()))).bit_length() - 1))
    laid_out = LaidOut(
        tables.sums,
        tables.offsets,
        tables.bits,
        np.ascontiguousarray(tables.bits.T),
        tables.absent.T - tables.absent,
        others,
    )
    listed_sets = Listed(
        masks=masks,
        weights=weights,
        tails=np.concatenate([np.empty(0), *(tails for _, _, _, tails in listed)]),
        key=np.array([key for key, _, _, _ in listed], dtype=np.int64),
        begin=np.cumsum([0, *(len(masks) for _, masks, _, _ in listed)]),
        groups=np.cumsum([0, *map(len, found)]),
        members=members,
        member_begin=member_begin,
        top=top,
        linear=np.exp(weights - top[own]),
        with_masks=with_masks,
        with_weights=with_weights,
        pairs=pairs,
        arguments=np.full((tables.m if listed else 0, slots), -1, dtype=np.int64),
        values=np.empty((tables.m if listed else 0, slots)),
    )
    return CompiledTables(laid_out, listed_sets)


def _members(
    tables: ScoreTables, nodes: np.ndarray, masks: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The members of each set, one after the other, and where those of each begin."""
    variables, counts = [], []
    for node, mask in zip(nodes.tolist(), masks.tolist(), strict=True):
        own = tables.nodes[node].candidates
        found = [own[b] for b in range(mask.bit_length()) if mask >> b & 1]
        variables += found
        counts.append(len(found))
    return np.array(variables, dtype=np.int64), np.cumsum([0, *counts])


def _by_member(tables: ScoreTables) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sets with other than first candidates by node and member."""
    m = tables.m
    masks, weights = [np.empty(0, np.int64)], [np.empty(0)]
    counts = np.zeros((m, m), dtype=np.int64)
    for j, node in enumerate(tables.nodes):
        listed, own_weights = node.others_by_weight()
        for i in np.flatnonzero(tables.bits[:, j]) if len(listed) else ():
            own = listed & tables.bits[i, j] > 0
            counts[j, i] = own.sum()
            masks.append(listed[own])
            weights.append(own_weights[own])
    pairs = np.zeros(m * m + 1, dtype=np.int64)
    np.cumsum(counts.ravel(), out=pairs[1:])
    return np.concatenate(masks), np.concatenate(weights), pairs


def _groups(node: NodeTable) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Sets with other than first candidates by the last of these, the heaviest group first."""
    masks, weights = node.others_by_weight()
    last = np.frexp(masks.astype(float))[1] - 1
    groups = []
    for bit in np.unique(last):
        own = last == bit
        tails = np.logaddexp.accumulate(weights[own][::-1])[::-1]
        groups.append((1 << int(bit), masks[own], weights[own], tails))
    return sorted(groups, key=lambda group: -group[3][0])


@no_type_check
@_compiled
def _with_others(j, mask, base, listed):
    """Add to the sum over first candidates what sets with others weigh."""
    arguments, values = listed.arguments, listed.values
    masks, weights, tails = listed.masks, listed.weights, listed.tails
    slot = np.int64((np.uint64(mask) * _MIX) >> np.uint64(40)) & (arguments.shape[1] - 1)
    if arguments[j, slot] != mask:
        scale, total = base, 1.0  # the sum so far is total · exp(scale)
        for g in range(listed.groups[j], listed.groups[j + 1]):
            if mask & listed.key[g]:
                for t in range(listed.begin[g], listed.begin[g + 1]):
                    if tails[t] < scale - NEGLIGIBLE:
                        break
                    if masks[t] & ~mask == 0:
                        above = weights[t] - scale
                        if above > MUCH:
                            scale, total = weights[t], 1.0 + total * np.exp(-above)
                        else:
                            total += np.exp(above)
        arguments[j, slot] = mask
        values[j, slot] = scale + np.log(total)
    return values[j, slot]


@no_type_check
@_compiled
def log_sum(j, mask, tables):
    """F_j(U) for the mask of U."""
    found = tables.laid_out.sums[tables.laid_out.offsets[j] + (mask & FIRST)]
    return found if mask <= FIRST else _with_others(j, mask, found, tables.listed)


@no_type_check
@_compiled
def _changed(present, before, after, enters, inside, begin, end, masks, weights):
    """F_j after i has entered or left the predecessors, from F_j = `present` and the sets with i.

    `before` and `after` are the sums over first candidates, and entries begin … end − 1 of `masks`
    and `weights` the other sets with i, of which those within `inside` count. Not a number where
    rounding would spoil it, so that the sum must be taken anew.
    """
    change = 0.0
    if before != after:
        if max(before, after) > present + FAR:
            return np.nan
        change = np.exp(after - present) - np.exp(before - present)
    for t in range(begin, end):
        if masks[t] & ~inside == 0:
            above = weights[t] - present
            if above > FAR:
                return np.nan
            if above < -FAR:
                break
            change += np.exp(above) if enters else -np.exp(above)
    return present + np.log1p(change) if change >= -NEARLY_ALL else np.nan


@no_type_check
@_compiled
def change_all(i, masks, present, tables, changed):
    """F_k after i has entered or left the predecessors of k, for each k of which i is a candidate.

    `masks` holds the predecessors of each k, and `present` F_k of them.
    """
    sums, offsets, others = tables.laid_out.sums, tables.laid_out.offsets, tables.laid_out.others
    bits, m = tables.laid_out.bits, len(masks)
    pairs, listed, weights = (
        tables.listed.pairs,
        tables.listed.with_masks,
        tables.listed.with_weights,
    )
    for k in range(m):
        bit, mask = bits[i, k], masks[k]
        if bit:
            after = sums[offsets[k] + ((mask ^ bit) & FIRST)]
            changed[k] = after
            if others[k]:
                before = sums[offsets[k] + (mask & FIRST)]
                changed[k] = _changed(
                    present[k], before, after, mask & bit == 0, mask | bit, pairs[k * m + i],
                    pairs[k * m + i + 1], listed, weights,
                )  # fmt: skip
                if np.isnan(changed[k]):
                    changed[k] = log_sum(k, mask ^ bit, tables)


@no_type_check
@_compiled
def prepare_move(i, place, masks, present, tables, prepared):
    """What the places that i could take have to do with, where not all is laid out.

    Into prepared[0, k] comes F_k after i has gone past k, for each k of which i is a candidate;
    into prepared[1, t] the log sum of the sets of i with other than first candidates that fit at
    place t.
    """
    change_all(i, masks, present, tables, prepared[0])
    prepared[1] = -np.inf
    if tables.laid_out.others[i]:
        _sums_by_place(i, place, tables.listed, prepared[1])


@no_type_check
@_compiled
def _sums_by_place(i, place, listed, sums):
    """For each place of i, the log sum of its sets with other than first candidates that fit.

    `sums` is −∞ everywhere before.
    """
    here, m, top = place[i], len(place), listed.top[i]
    members, member_begin, relative = listed.members, listed.member_begin, listed.linear
    linear = np.zeros(m)
    for t in range(listed.begin[listed.groups[i]], listed.begin[listed.groups[i + 1]]):
        first = 0
        for u in range(member_begin[t], member_begin[t + 1]):
            at = place[members[u]]
            first = max(first, at if at > here else at + 1)
        if relative[t] > TINY:
            linear[first] += relative[t]
        else:
            sums[first] = np.logaddexp(sums[first], listed.weights[t])
    total, low = 0.0, -np.inf
    for t in range(m):
        total += linear[t]
        if sums[t] > -np.inf:
            low = np.logaddexp(low, sums[t])
        sums[t] = low
        if total > 0.0:
            own = top + np.log(total)
            sums[t] = np.logaddexp(own, low) if low > own - FAR else own


@no_type_check
@_compiled
def draw_sets(j, orders, masks, weights, tables, uniforms, drawn):
    """For each order, draw one of the node's sets: by falling weight, those that fit."""
    for s in range(len(orders)):
        before = 0
        for t in range(orders.shape[1]):
            if orders[s, t] == j:
                break
            before |= tables.laid_out.bits[orders[s, t], j]
        left, total = uniforms[s], log_sum(j, before, tables)
        for t in range(len(masks)):
            if masks[t] & ~before == 0:
                drawn[s] = masks[t]
                left -= np.exp(weights[t] - total)
                if left < 0.0:
                    break
