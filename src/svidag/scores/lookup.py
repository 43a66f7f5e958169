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
    arguments: np.ndarray
    values: np.ndarray


def compiled_tables(tables: ScoreTables) -> LaidOutTables | CompiledTables:
    """Lay score tables out for compiled code, with room to remember sums in."""
    turned = np.ascontiguousarray(tables.bits.T)
    after = tables.absent.T - tables.absent
    common = (tables.sums, tables.offsets, tables.bits, turned, after)
    found = [_groups(node) for node in tables.nodes]
    listed = [group for groups in found for group in groups]
    if not listed:
        return LaidOutTables(*common)
    scanned = sum(len(groups) > 0 for groups in found)
    slots = 1 << max(10, min(16, (_SLOTS // scanned).bit_length() - 1))
    shape = (tables.m, slots)
    return CompiledTables(
        *common,
        np.concatenate([masks for _, masks, _, _ in listed]),
        np.concatenate([weights for _, _, weights, _ in listed]),
        np.concatenate([tails for _, _, _, tails in listed]),
        np.array([key for key, _, _, _ in listed], dtype=np.int64),
        np.cumsum([0, *(len(masks) for _, masks, _, _ in listed)]),
        np.cumsum([0, *map(len, found)]),
        np.full(shape, -1, dtype=np.int64),
        np.empty(shape),
    )


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


def log_sum(j: int, mask: int, tables: LaidOutTables | CompiledTables) -> float:
    """F_j(U) for the mask of U, inside compiled code."""
    raise NotImplementedError("only compiled code looks sums up one by one")


@overload(log_sum, inline="always", jit_options={"error_model": "numpy"})
@no_type_check
def _log_sum(j, mask, tables):
    """Two kinds of tables, told apart when the code is compiled."""

    @no_type_check
    def look_up(j, mask, tables):
        return tables.sums[tables.offsets[j] + mask]

    @no_type_check
    def add_others(j, mask, tables):
        found = tables.sums[tables.offsets[j] + (mask & _FIRST)]
        if mask > _FIRST:
            found = _with_others(
                j, mask, found, tables.masks, tables.weights, tables.tails, tables.key,
                tables.begin, tables.groups, tables.arguments, tables.values,
            )  # fmt: skip
        return found

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
