"""Parts of laws over listed graphs, and of kept orders with their tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from svidag.inference.order_law import OrderLaw, VisitedGraphs
from svidag.io.laws import require_shape
from svidag.posterior import DrawnGraphs
from svidag.problem import Problem
from svidag.scores import ScoreTables


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
    """Orders, and the tables that they were scored by."""
    return {"orders": law.orders, "edges": law.edges, "tables": law.tables.arrays()}


def unpack_orders(parts: Mapping[str, Any], problem: Problem | None) -> OrderLaw:
    """Kept orders and the tables they were scored by."""
    edges = parts["edges"]
    m = len(edges)
    arrays = parts["tables"]
    require_shape(arrays["sizes"], (m,), "sizes")
    require_shape(arrays["candidates"], (int(arrays["sizes"].sum()),), "candidates")
    require_shape(arrays["counts"], (m,), "counts")
    listed = int(arrays["counts"].sum())
    require_shape(arrays["masks"], (listed,), "masks")
    require_shape(arrays["weights"], (listed,), "weights")
    require_shape(arrays["absent"], (m, m), "absent")
    orders = require_shape(parts["orders"], (-1, m), "orders")
    return OrderLaw(ScoreTables.restored(arrays), orders, require_shape(edges, (m, m), "edges"))
