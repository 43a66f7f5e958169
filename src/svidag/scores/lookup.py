"""F_j(U) inside compiled code: laid out over first candidates, the rest added and remembered.

`tables` is what :func:`compiled_tables` gives, with a memory of its own for every thread: it holds
values of a pure function by their arguments, so what it has seen changes no result.
"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numba
import numpy as np
from numba.extending import overload

from svidag.scores.tables import MOST_LAID_OUT, NodeTable, ScoreTables

NEGLIGIBLE = 10.0  # nats below a sum at which all that is left to add is left out

TINY = 1e-250  # relative weights below are added as logarithms
FAR = 30.0  # nats between two terms at which a sum of both is one of them
NEARLY_ALL = 0.999  # of a sum; what is left when so much is taken away is summed anew
MUCH = 2.0  # nats above the scale of a sum at which a weight becomes the scale

_SLOTS = 2**20  # sums remembered by a thread, all nodes together
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd and near 2⁶⁴/φ: products spread over all bits
_FIRST = (1 << MOST_LAID_OUT) - 1

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


class LaidOutTables(NamedTuple):
    """The arrays of score tables as compiled code reads them, where all sums are laid out.

    Attributes
    ----------
    sums, offsets
        F_j over first candidates, and where each node's part begins.
    bits, turned
        The bit of i for k, and of k for i, in row i.
    after
        What i gains from the prior by coming after k rather than before it.
    """

    sums: np.ndarray
    offsets: np.ndarray
    bits: np.ndarray
    turned: np.ndarray
    after: np.ndarray


class CompiledTables(NamedTuple):
    """The same where some nodes have other candidates besides.

    Attributes
    ----------
    sums, offsets, bits, turned, after
        As above.
    masks, weights, tails
        Sets with other candidates, grouped by the last of them, by falling weight in each group;
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

    sums: np.ndarray
    offsets: np.ndarray
    bits: np.ndarray
    turned: np.ndarray
    after: np.ndarray
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


Tables = LaidOutTables | CompiledTables
ONLY_COMPILED = "only compiled code looks sums up one by one"


def compiled_tables(tables: ScoreTables) -> Tables:
    """Lay score tables out for compiled code, with room to remember sums in."""
    turned = np.ascontiguousarray(tables.bits.T)
    after = tables.absent.T - tables.absent
    common = (tables.sums, tables.offsets, tables.bits, turned, after)
    found = [_groups(node) for node in tables.nodes]
    listed = [group for groups in found for group in groups]
    if not listed:
        return LaidOutTables(*common)
    masks = np.concatenate([masks for _, masks, _, _ in listed])
    weights = np.concatenate([weights for _, _, weights, _ in listed])
    counts = [sum(len(group[1]) for group in groups) for groups in found]
    own = np.repeat(np.arange(tables.m), counts)
    top = np.full(tables.m, -np.inf)
    np.maximum.at(top, own, weights)
    members, member_begin = _members(tables, own, masks)
    with_masks, with_weights, pairs = _by_member(tables)
    scanned = sum(len(groups) > 0 for groups in found)
    slots = 1 << max(10, min(16, (_SLOTS // scanned).bit_length() - 1))
    return CompiledTables(
        *common,
        masks=masks,
        weights=weights,
        tails=np.concatenate([tails for _, _, _, tails in listed]),
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
        arguments=np.full((tables.m, slots), -1, dtype=np.int64),
        values=np.empty((tables.m, slots)),
    )


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
    masks, weights, counts = [], [], np.zeros((m, m), dtype=np.int64)
    for j, node in enumerate(tables.nodes):
        others = ~node.first
        for i in np.flatnonzero(tables.bits[:, j]):
            own = others & (node.masks & tables.bits[i, j] > 0)
            counts[j, i] = own.sum()
            masks.append(node.masks[own])
            weights.append(node.weights[own])
    pairs = np.zeros(m * m + 1, dtype=np.int64)
    np.cumsum(counts.ravel(), out=pairs[1:])
    return np.concatenate(masks), np.concatenate(weights), pairs


def _groups(node: NodeTable) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Sets with other than first candidates by the last of these, the heaviest group first."""
    rest = ~node.first
    masks, weights = node.masks[rest], node.weights[rest]
    last = np.frexp(masks.astype(float))[1] - 1
    groups = []
    for bit in np.unique(last):
        own = last == bit
        tails = np.logaddexp.accumulate(weights[own][::-1])[::-1]
        groups.append((1 << int(bit), masks[own], weights[own], tails))
    return sorted(groups, key=lambda group: -group[3][0])


@no_type_check
@_compiled
def _with_others(
    j, mask, base, masks, weights, tails, key, begin, groups, arguments, values
):  # fmt: skip
    """Add to the sum over first candidates what sets with others weigh."""
    slot = np.int64((np.uint64(mask) * _MIX) >> np.uint64(40)) & (arguments.shape[1] - 1)
    if arguments[j, slot] != mask:
        scale, total = base, 1.0  # the sum so far is total · exp(scale)
        for g in range(groups[j], groups[j + 1]):
            if mask & key[g]:
                for t in range(begin[g], begin[g + 1]):
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
def _whole_sum(j, mask, tables):
    """F_j(U) where sets may have other than first candidates."""
    found = tables.sums[tables.offsets[j] + (mask & _FIRST)]
    if mask > _FIRST:
        found = _with_others(
            j, mask, found, tables.masks, tables.weights, tables.tails, tables.key, tables.begin,
            tables.groups, tables.arguments, tables.values,
        )  # fmt: skip
    return found


def log_sum(j: int, mask: int, tables: Tables) -> float:
    """F_j(U) for the mask of U, inside compiled code."""
    raise NotImplementedError(ONLY_COMPILED)


@overload(log_sum, inline="always", jit_options={"error_model": "numpy"})
@no_type_check
def _log_sum(j, mask, tables):
    """Two kinds of tables, told apart when the code is compiled."""

    @no_type_check
    def look_up(j, mask, tables):
        return tables.sums[tables.offsets[j] + mask]

    @no_type_check
    def add_others(j, mask, tables):
        return _whole_sum(j, mask, tables)

    return look_up if tables.instance_class is LaidOutTables else add_others


@no_type_check
@_compiled
def _with_one_changed(j, i, mask, present, tables):
    """F_j(U ∪ i) or F_j(U ∖ i), whichever is not F_j(U) = `present`: only sets with i change."""
    bit = tables.bits[i, j]
    before = tables.sums[tables.offsets[j] + (mask & _FIRST)]
    after = tables.sums[tables.offsets[j] + ((mask ^ bit) & _FIRST)]
    if tables.groups[j] == tables.groups[j + 1]:
        return after
    enters = mask & bit == 0
    inside = mask | bit
    change = 0.0
    if bit <= _FIRST:
        if max(before, after) > present + FAR:
            return log_sum(j, mask ^ bit, tables)
        change = np.exp(after - present) - np.exp(before - present)
    pair = j * len(tables.bits) + i
    for t in range(tables.pairs[pair], tables.pairs[pair + 1]):
        if tables.with_masks[t] & ~inside == 0:
            above = tables.with_weights[t] - present
            if above > FAR:
                return log_sum(j, mask ^ bit, tables)
            if above < -FAR:
                break
            change += np.exp(above) if enters else -np.exp(above)
    if change < -NEARLY_ALL:
        return log_sum(j, mask ^ bit, tables)  # what is left would be lost in rounding
    return present + np.log1p(change)


@no_type_check
@_compiled
def _sums_by_place(i, place, tables, sums):
    """For each place of i, the log sum of its sets with other than first candidates that fit."""
    here, m, top = place[i], len(place), tables.top[i]
    linear = np.zeros(m)
    sums[:] = -np.inf
    for t in range(tables.begin[tables.groups[i]], tables.begin[tables.groups[i + 1]]):
        first = 0
        for u in range(tables.member_begin[t], tables.member_begin[t + 1]):
            at = place[tables.members[u]]
            first = max(first, at if at > here else at + 1)
        if tables.linear[t] > TINY:
            linear[first] += tables.linear[t]
        else:
            sums[first] = np.logaddexp(sums[first], tables.weights[t])
    total, low = 0.0, -np.inf
    for t in range(m):
        total += linear[t]
        if sums[t] > -np.inf:
            low = np.logaddexp(low, sums[t])
        sums[t] = low
        if total > 0.0:
            own = top + np.log(total)
            sums[t] = np.logaddexp(own, low) if low > own - FAR else own


def one_changed(j: int, i: int, mask: int, present: float, tables: Tables) -> float:
    """F_j after i has entered or left the predecessors, inside compiled code."""
    raise NotImplementedError(ONLY_COMPILED)


@overload(one_changed, inline="always", jit_options={"error_model": "numpy"})
@no_type_check
def _one_changed(j, i, mask, present, tables):
    @no_type_check
    def look_up(j, i, mask, present, tables):
        return tables.sums[tables.offsets[j] + (mask ^ tables.bits[i, j])]

    @no_type_check
    def add_others(j, i, mask, present, tables):
        return _with_one_changed(j, i, mask, present, tables)

    return look_up if tables.instance_class is LaidOutTables else add_others


def prepare_places(i: int, place: np.ndarray, tables: Tables, room: np.ndarray) -> None:
    """Make ready for `at_place` of the node i, inside compiled code."""
    raise NotImplementedError(ONLY_COMPILED)


@overload(prepare_places, inline="always", jit_options={"error_model": "numpy"})
@no_type_check
def _prepare_places(i, place, tables, room):
    @no_type_check
    def nothing(i, place, tables, room):
        pass

    @no_type_check
    def sum_others(i, place, tables, room):
        _sums_by_place(i, place, tables, room)

    return nothing if tables.instance_class is LaidOutTables else sum_others


def at_place(i: int, t: int, mask: int, tables: Tables, room: np.ndarray) -> float:
    """F_i for the mask of its predecessors at place t, inside compiled code."""
    raise NotImplementedError(ONLY_COMPILED)


@overload(at_place, inline="always", jit_options={"error_model": "numpy"})
@no_type_check
def _at_place(i, t, mask, tables, room):
    @no_type_check
    def look_up(i, t, mask, tables, room):
        return tables.sums[tables.offsets[i] + mask]

    @no_type_check
    def add_others(i, t, mask, tables, room):
        return np.logaddexp(tables.sums[tables.offsets[i] + (mask & _FIRST)], room[t])

    return look_up if tables.instance_class is LaidOutTables else add_others


@no_type_check
@_compiled
def draw_sets(j, orders, masks, weights, tables, uniforms, drawn):
    """For each order, draw one of the node's sets: by falling weight, those that fit."""
    for s in range(len(orders)):
        before = 0
        for t in range(orders.shape[1]):
            if orders[s, t] == j:
                break
            before |= tables.bits[orders[s, t], j]
        left, total = uniforms[s], log_sum(j, before, tables)
        for t in range(len(masks)):
            if masks[t] & ~before == 0:
                drawn[s] = masks[t]
                left -= np.exp(weights[t] - total)
                if left < 0.0:
                    break
