"""Parts of laws over listed graphs, and of kept orders with their tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from svidag.inference.order_law import OrderLaw, VisitedGraphs
from svidag.io.laws import require_shape
from svidag.posterior import DrawnGraphs
from svidag.problem import Problem
from svidag.scores import NodeTable, ScoreTables


def pack_graphs(law: DrawnGraphs, problem: Problem | None) -> dict[str, Any]:
    """The graphs as bits, eight arrows to a byte."""
    k, m, _ = law.graphs.shape
    bits = np.packbits(law.graphs.reshape(k, m * m), axis=1)
    return {"m": m, "graphs": bits, "probability": law.probability}


def unpack_graphs(parts: Mapping[str, Any], problem: Problem | None) -> DrawnGraphs:
    """The listed graphs."""
    m = parts["m"]
    bits = require_shape(parts["graphs"], (-1, -(-m * m // 8)), "graphs")
    graphs = np.unpackbits(bits, axis=1, count=m * m).reshape(len(bits), m, m)
    return DrawnGraphs(graphs, require_shape(parts["probability"], (len(bits),), "probability"))


def pack_visited(law: VisitedGraphs, problem: Problem | None) -> dict[str, Any]:
    """The kept graphs as bits, and the edge probabilities."""
    k, m, _ = law.graphs.shape
    return {"graphs": np.packbits(law.graphs.reshape(k, m * m), axis=1), "edges": law.edges}


def unpack_visited(parts: Mapping[str, Any], problem: Problem | None) -> VisitedGraphs:
    """The kept graphs and their edge probabilities."""
    m = len(parts["edges"])
    edges = require_shape(parts["edges"], (m, m), "edges")
    bits = require_shape(parts["graphs"], (-1, -(-m * m // 8)), "graphs")
    graphs = np.unpackbits(bits, axis=1, count=m * m).reshape(len(bits), m, m)
    return VisitedGraphs(graphs, edges)


def pack_orders(law: OrderLaw, problem: Problem | None) -> dict[str, Any]:
    """Orders, and tables with the few cells that were scored; their sums are kept whole."""
    tables = law.tables
    return {
        "orders": law.orders,
        "edges": law.edges,
        "candidates": tuple(node.candidates for node in tables.nodes),
        "exact": tuple(_scored(node.exact) for node in tables.nodes),
        "sketch": tuple(_scored(node.sketch) for node in tables.nodes),
        "weights": _scored(tables.weights),
        "sums": tables.sums,
        "absent": tables.absent,
    }


def unpack_orders(parts: Mapping[str, Any], problem: Problem | None) -> OrderLaw:
    """Kept orders and the tables they were scored by."""
    m = len(parts["candidates"])
    sizes = [1 << len(require_shape(c, (-1,), "candidates")) for c in parts["candidates"]]
    # The sums are stored whole, so what is made here is no larger than the file.
    sums = require_shape(parts["sums"], (sum(sizes),), "sums")
    nodes = tuple(
        NodeTable(candidates, _table(exact, size), _table(sketch, size))
        for candidates, exact, sketch, size in zip(
            parts["candidates"], parts["exact"], parts["sketch"], sizes, strict=True
        )
    )
    bits = np.zeros((m, m), dtype=np.int64)
    for j, node in enumerate(nodes):
        bits[node.candidates, j] = 1 << np.arange(len(node.candidates))
    tables = ScoreTables(
        nodes,
        _table(parts["weights"], len(sums)),
        sums,
        np.concatenate([[0], np.cumsum(sizes)]),
        bits,
        require_shape(parts["absent"], (m, m), "absent"),
    )
    orders = require_shape(parts["orders"], (-1, m), "orders")
    return OrderLaw(tables, orders, require_shape(parts["edges"], (m, m), "edges"))


def _scored(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the table has a weight, and that weight."""
    cells = np.flatnonzero(np.isfinite(table))
    return cells, table[cells]


def _table(scored: tuple[np.ndarray, np.ndarray], size: int) -> np.ndarray:
    cells, weights = scored
    table = np.full(size, -np.inf)
    table[cells] = weights
    return table
