"""The exact distribution of the graph, under either way to weigh graphs."""

from __future__ import annotations

import numpy as np

from svidag.exact.orders import ExactOrders, ParentWeights, parent_weights
from svidag.exact.structures import ExactStructures, directions_alike, enumerated
from svidag.posterior import GraphDistribution
from svidag.prior import EdgePrior

ORDER_LIMIT = 20  # 2^m tables for each node
NONLINEAR_LIMIT = 12  # 2^m networks to integrate out: half a minute for 1000 rows
FLEXIBLE_LIMIT = 10  # m 2^(m−1) families to fit: minutes
STRUCTURE_LIMIT = 13  # 4^m sums over layers: half a minute
ENUMERATION_LIMIT = 5  # 29 281 graphs; six variables have 3.8 million


def exact_graphs(
    scores: np.ndarray, edges: EdgePrior, graph_weights: str
) -> tuple[GraphDistribution, float]:
    """The distribution of the graph and log p(D | knowledge), from scores of all parent sets."""
    weights = parent_weights(scores, edges)
    if graph_weights == "order":
        distribution = ExactOrders.build(weights, edges.required)
        return distribution, distribution.log_evidence
    # The same sums without data give the normaliser of the prior.
    without_data = parent_weights(np.where(np.isfinite(scores), 0.0, -np.inf), edges)
    distribution, log_total = _structures(weights, edges)
    return distribution, log_total - _structures(without_data, edges)[1]


def require_feasible(m: int, mechanism: str) -> None:
    """Refuse a table with too many variables."""
    _check_size(m, ORDER_LIMIT, "the exact posterior")
    if mechanism not in ("linear", "discrete"):
        limit = NONLINEAR_LIMIT if mechanism == "nonlinear" else FLEXIBLE_LIMIT
        _check_size(m, limit, f"the exact posterior with {mechanism} mechanisms")


def _structures(weights: ParentWeights, edges: EdgePrior) -> tuple[GraphDistribution, float]:
    if directions_alike(weights, edges.required):
        _check_size(weights.m, STRUCTURE_LIMIT, "the exact posterior with structure weights")
        distribution = ExactStructures.build(weights)
        return distribution, distribution.log_total
    _check_size(
        weights.m,
        ENUMERATION_LIMIT,
        "the exact posterior with structure weights and beliefs that differ by direction "
        "(forbidden edges and tiers among them)",
    )
    return enumerated(weights)


def _check_size(m: int, limit: int, what: str) -> None:
    if m > limit:
        raise ValueError(
            f"{what} is feasible for at most {limit} variables; this table has {m}. "
            "Choose fewer columns; linear mechanisms with graph_weights='order' allow up to "
            f"{ORDER_LIMIT} variables."
        )
