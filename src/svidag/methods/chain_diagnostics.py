"""What chains over orders report about their quality, and how it is judged.

Every threshold is a constant below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from svidag.posterior.diagnostics import Details, Level, Reason, diagnostic
from svidag.run.convergence import (
    Agreement,
    effective_count,
    effective_size,
    half_disagreement,
)
from svidag.run.status import Status

AGREEMENT, DISAGREEMENT = 0.05, 0.15
"""Largest difference of an arrow's probability between two halves of the chains: good, and bad."""

ENOUGH_ORDERS = 100
"""Effective orders of all chains together that are needed at least."""


@dataclass(frozen=True, eq=False)
class ChainDiagnostics(Details):
    """How far chains over orders agree, and how much their orders are worth."""

    half_disagreement: float = diagnostic(
        "Largest difference of an arrow's probability between halves of the chains"
    )
    edge_disagreement: float = diagnostic(
        "Largest difference of an arrow's probability between one chain and all"
    )
    effective_orders: float = diagnostic("Independent orders that the kept orders are worth")
    kept_orders: int = diagnostic("Orders kept")
    distinct_orders: int = diagnostic("Distinct orders among them")
    effective_distinct_orders: float = diagnostic(
        "Distinct orders, weighed by how often they occur"
    )
    log_evidence_by_chain: Float[np.ndarray, " chains"] = diagnostic("Mean log evidence, by chain")
    log_evidence_spread: Float[np.ndarray, " chains"] = diagnostic(
        "Standard deviation of log evidence, by chain"
    )
    log_evidence_trace: Float[np.ndarray, "chains T"] = diagnostic(
        "Log evidence of the orders, by chain", trace=True
    )


def chain_values(
    edges: Float[np.ndarray, "groups m m"],
    orders: Int[np.ndarray, "chains S m"],
    log_evidence: Float[np.ndarray, "chains T"],
) -> dict[str, Any]:
    """The fields of `ChainDiagnostics`."""
    flat = orders.reshape(-1, orders.shape[2])
    return {
        "half_disagreement": half_disagreement(edges),
        "edge_disagreement": float(np.abs(edges - edges.mean(axis=0)).max()),
        "effective_orders": effective_size(log_evidence),
        "kept_orders": len(flat),
        "distinct_orders": len(np.unique(flat, axis=0)),
        "effective_distinct_orders": effective_count(flat),
        "log_evidence_by_chain": log_evidence.mean(axis=1),
        "log_evidence_spread": log_evidence.std(axis=1),
        "log_evidence_trace": log_evidence,
    }


def chain_status(
    rule: Agreement,
    edges: Float[np.ndarray, "groups m m"],
    log_evidence: Float[np.ndarray, "chains T"],
    *,
    time_is_over: bool,
) -> Status:
    """How chains ended."""
    if rule.reached(edges, log_evidence):
        return Status.CONVERGED
    return Status.TIME if time_is_over else Status.BUDGET


def judge_chains(found: ChainDiagnostics, status: Status, *, budget: str) -> Iterator[Reason]:
    """What the chains say about the result; `budget` is the setting that says how long they run."""
    yield _judge_halves(found.half_disagreement)
    if found.effective_orders < ENOUGH_ORDERS:
        text = (
            f"The chains are worth {found.effective_orders:.0f} independent orders. Run longer: a "
            f"larger `{budget}`, or more `minutes`."
        )
        yield Reason(Level.CAREFUL, text)
    if status is Status.TIME:
        text = "The time was over before the chains agreed: the result was cut short."
        yield Reason(Level.CAREFUL, text)


def _judge_halves(difference: float) -> Reason:
    if math.isnan(difference):
        text = "There is a single chain, so that nothing can be compared with it."
        return Reason(Level.CAREFUL, text)
    text = f"Two independent halves of the chains differ by at most {difference:.3f} on any arrow"
    if difference <= AGREEMENT:
        return Reason(Level.TRUST, f"{text}.")
    if difference <= DISAGREEMENT:
        return Reason(Level.CAREFUL, f"{text}; run longer for probabilities closer than that.")
    return Reason(
        Level.NOT,
        f"{text}: they have not found the same graphs, so that single probabilities may be wrong "
        "by about half of that. Run longer, with more `chains`, or state a prior that says more.",
    )
