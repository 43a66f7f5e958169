"""F_j(U) in compiled code: tabulated for the first candidates, the other sets added and cached.

`tables` is the result of :func:`compiled_tables`. Every thread has one of its own, since it holds a
cache. The cache stores values of a pure function by their arguments and changes no result.
"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numba
import numpy as np

from svidag.scores.tables import MAX_TABULATED, NodeTable, ScoreTables

NEGLIGIBLE = 10.0  # nats below a sum at which the remaining terms are left out

TINY = 1e-250  # smaller relative weights are added as logarithms
FAR = 30.0  # nats between two terms at which the smaller one is neglected
NEARLY_ALL = 0.999  # of a sum: if a change removes more, the sum is computed afresh
MUCH = 2.0  # nats by which a weight must exceed the scale of a sum to become the new scale

_SLOTS = 2**20  # sums in the cache of a thread, all nodes together
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd and near 2⁶⁴/φ: products spread over all bits
FIRST = (1 << MAX_TABULATED) - 1
"""The mask of all first candidates; a constant of the compiled code, which is kept on disk until
this file changes."""

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


class SubsetSums(NamedTuple):
    """Sums over the first candidates, which most look-ups need.

    Attributes
    ----------
    sums, offsets
        F_j over first candidates, and where each node's part begins.
    others
        Whether a node has parent sets that contain other than the first candidates.
    """

    sums: np.ndarray
    offsets: np.ndarray
    others: np.ndarray


class Relations(NamedTuple):
    """For each node i, the nodes k for which it matters whether i comes before or after.

    These are the candidates of i, the nodes of which i is a candidate, and those for which the
    prior prefers one of both directions.

    Attributes
    ----------
    begin
        Where the relations of each node begin.
    links
        For each relation: k, the bit of i in the masks of k, the bit of k in the masks of i.
    after
        What i gains from the prior by coming after k rather than before it.
    number
        ``number[i, k]`` is the number of the relation of i with k, or −1.
    """

    begin: np.ndarray
    links: np.ndarray
    after: np.ndarray
    number: np.ndarray


class ListedSets(NamedTuple):
    """Parent sets that contain other than the first candidates.

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
        The cache: masks, and the sums F_j for them.
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

    In parts, since numba counts a reference to every array that a function is given: a move
    that receives all of them takes twice as long as one that receives only what it needs.
    """

    subset_sums: SubsetSums
    relations: Relations
    listed: ListedSets

    def work_space(self) -> np.ndarray | None:
        """Work space for moves; None where no node has sets outside the tabulated sums."""
        others = self.subset_sums.others
        return np.empty((2, len(others))) if others.any() else None


def compiled_tables(tables: ScoreTables) -> CompiledTables:
    """The arrays of score tables for compiled code, with an empty cache of sums."""
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
    listed_sets = ListedSets(
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
    subset_sums = SubsetSums(tables.sums, tables.offsets, others)
    return CompiledTables(subset_sums, _relations(tables), listed_sets)


def _relations(tables: ScoreTables) -> Relations:
    """Which pairs of nodes matter to each other."""
    bits, after = tables.bits, tables.absent.T - tables.absent
    i, k = np.nonzero((bits > 0) | (bits.T > 0) | (after != 0.0))
    number = np.full(bits.shape, -1, dtype=np.int32)
    number[i, k] = np.arange(len(i))
    return Relations(
        np.searchsorted(i, np.arange(tables.m + 1)),
        np.stack([k, bits[i, k], bits[k, i]], axis=1),
        after[i, k],
        number,
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
    """Parent sets with other than the first candidates, by node and member."""
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
    """Parent sets grouped by their last candidate beyond the first, the heaviest group first."""
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
    """F_j: the sum `base` over the first candidates plus the weights of all other sets."""
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
    found = tables.subset_sums.sums[tables.subset_sums.offsets[j] + (mask & FIRST)]
    return found if mask <= FIRST else _with_others(j, mask, found, tables.listed)


@no_type_check
@_compiled
def _changed(present, before, after, enters, inside, begin, end, masks, weights):
    """F_j after i has entered or left the predecessors, from F_j = `present` and the sets with i.

    `before` and `after` are the sums over first candidates, and entries begin … end − 1 of `masks`
    and `weights` the other sets with i, of which those within `inside` count. NaN where
    rounding errors would be large, so that the sum must be computed afresh.
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
    sums, offsets, others = tables.subset_sums
    begin, links, _, _ = tables.relations
    m = len(masks)
    pairs, listed, weights = (
        tables.listed.pairs,
        tables.listed.with_masks,
        tables.listed.with_weights,
    )
    for u in range(begin[i], begin[i + 1]):
        k, bit = links[u, 0], links[u, 1]
        if bit:
            mask = masks[k]
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
def prepare_move(i, found, masks, present, tables, rank, prepared):
    """Compute the sums that comparing all places of i needs, where not all are tabulated.

    `found` lists the relations of i by the places of the related nodes, and `rank` becomes the
    number of each node in that list. prepared[0, k] becomes F_k after i has moved past k, for each
    k of which i is a candidate; prepared[1, x] becomes the log sum, over the sets of i with other
    than the first candidates, of those whose members have a rank below x.
    """
    change_all(i, masks, present, tables, prepared[0])
    own = prepared[1, : len(found) + 1]
    own[:] = -np.inf
    if tables.subset_sums.others[i]:
        for x in range(len(found)):
            rank[tables.relations.links[found[x], 0]] = x
        _sums_by_rank(i, rank, tables.listed, own)


@no_type_check
@_compiled
def _sums_by_rank(i, rank, listed, sums):
    """For each x, the log sum of the sets of i with other than the first candidates.

    Only sets whose members all have a rank below x count. `sums` must be −∞ on entry.
    """
    top = listed.top[i]
    members, member_begin, relative = listed.members, listed.member_begin, listed.linear
    linear = np.zeros(len(sums))
    for t in range(listed.begin[listed.groups[i]], listed.begin[listed.groups[i + 1]]):
        first = 0
        for u in range(member_begin[t], member_begin[t + 1]):
            first = max(first, rank[members[u]] + 1)
        if relative[t] > TINY:
            linear[first] += relative[t]
        else:
            sums[first] = np.logaddexp(sums[first], listed.weights[t])
    total, low = 0.0, -np.inf
    for x in range(len(sums)):
        total += linear[x]
        if sums[x] > -np.inf:
            low = np.logaddexp(low, sums[x])
        sums[x] = low
        if total > 0.0:
            own = top + np.log(total)
            sums[x] = np.logaddexp(own, low) if low > own - FAR else own


@no_type_check
@_compiled
def draw_sets(j, orders, masks, weights, tables, uniforms, drawn):
    """For each order, draw one of the node's parent sets given its predecessors.

    `masks` and `weights` are sorted by falling weight.
    """
    for s in range(len(orders)):
        before = 0
        for t in range(orders.shape[1]):
            if orders[s, t] == j:
                break
            related = tables.relations.number[j, orders[s, t]]
            if related >= 0:
                before |= tables.relations.links[related, 2]
        left, total = uniforms[s], log_sum(j, before, tables)
        for t in range(len(masks)):
            if masks[t] & ~before == 0:
                drawn[s] = masks[t]
                left -= np.exp(weights[t] - total)
                if left < 0.0:
                    break
