"""Parts of the exact laws. A node's table says nothing of the sets that hold the node itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from svidag.exact import subsets
from svidag.exact.orders import OrderLaw, ParentWeights
from svidag.exact.structures import States, StructureLaw
from svidag.io.laws import require_shape
from svidag.problem import Problem


def pack_orders(law: OrderLaw, problem: Problem | None) -> dict[str, Any]:
    """The weights and the recursions' results."""
    return {
        **_pack_weights(law.weights),
        "follow": _halves(law.follow),
        "before": law.before,
        "after": law.after,
        "log_evidence": law.log_evidence,
    }


def unpack_orders(parts: Mapping[str, Any], problem: Problem | None) -> OrderLaw:
    """The law under uniform orders."""
    weights = _unpack_weights(parts)
    every = (2**weights.m,)
    return OrderLaw(
        weights,
        _whole(parts["follow"]),
        require_shape(parts["before"], every, "before"),
        require_shape(parts["after"], every, "after"),
        parts["log_evidence"],
    )


def pack_structures(law: StructureLaw, problem: Problem | None) -> dict[str, Any]:
    """The weights, their sums, and what can follow each state."""
    return {
        **_pack_weights(law.weights),
        "sums": law.sums,
        "rest": law.rest.values,
        "log_total": law.log_total,
    }


def unpack_structures(parts: Mapping[str, Any], problem: Problem | None) -> StructureLaw:
    """The law in which every graph counts once."""
    weights = _unpack_weights(parts)
    m = weights.m
    values = require_shape(parts["rest"], (3**m,), "rest")
    sums = require_shape(parts["sums"], (m, 2**m), "sums")
    return StructureLaw(weights, sums, States.of(values, m), parts["log_total"])


def _pack_weights(weights: ParentWeights) -> dict[str, Any]:
    single = weights.gaps[:, 1 << np.arange(weights.m)]  # log(1 − p_ij) at [j, i]
    return {"sets": _halves(weights.sets), "absent": single}


def _unpack_weights(parts: Mapping[str, Any]) -> ParentWeights:
    sets = _whole(parts["sets"])
    absent = require_shape(parts["absent"], (len(sets), len(sets)), "absent")
    return ParentWeights(sets, np.stack([subsets.additive(row) for row in absent]))


def _halves(table: np.ndarray) -> np.ndarray:
    """Of each node's row, the sets without that node."""
    return np.stack([row.reshape(-1, 2, 1 << j)[:, 0].ravel() for j, row in enumerate(table)])


def _whole(halves: np.ndarray) -> np.ndarray:
    m = len(halves)
    if halves.shape != (m, 1 << m >> 1):
        raise ValueError(f"a table over sets has the shape {halves.shape}; expected (m, 2^(m − 1))")
    table = np.full((m, 1 << m), -np.inf)
    for j, row in enumerate(halves):
        table[j].reshape(-1, 2, 1 << j)[:, 0] = row.reshape(-1, 1 << j)
    return table
