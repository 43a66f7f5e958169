"""When chains may end, and what they report about their quality, whatever gave the parents."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from svidag.run.cautions import ConvergenceWarning
from svidag.run.convergence import (
    Agreement,
    effective_count,
    effective_size,
    half_disagreement,
)
from svidag.search.growth import GrowthSettings

APART = 0.1
"""Halves of the chains that differ by more than this deserve a warning."""

AGREEMENT = frozenset({"agreement", "effective_orders"})
"""Settings that say when chains may end."""


def agreement(given: Mapping[str, Any]) -> Agreement:
    """The rule by which chains end, from the settings of a fit."""
    rule = Agreement(
        float(given.get("agreement", Agreement.tolerance)),
        float(given.get("effective_orders", Agreement.effective)),
    )
    if not 0 <= rule.tolerance <= 1:
        raise ValueError(f"agreement must be between 0 and 1; got {rule.tolerance}")
    return rule


def stated(rule: Agreement) -> dict[str, Any]:
    """The rule as settings."""
    return {"agreement": rule.tolerance, "effective_orders": rule.effective}


def chain_figures(
    edges: Float[np.ndarray, "chains m m"],
    orders: Int[np.ndarray, "chains S m"],
    log_evidence: Float[np.ndarray, "chains T"],
    *,
    rule: Agreement,
) -> dict[str, Any]:
    """How the chains ended, how far they agree and how much their orders are worth."""
    flat = orders.reshape(-1, orders.shape[2])
    converged = rule.reached(edges, log_evidence)
    return {
        "status": "converged" if converged else "budget",
        "half_disagreement": half_disagreement(edges),
        "edge_disagreement": float(np.abs(edges - edges.mean(axis=0)).max()),
        "effective_orders": effective_size(log_evidence),
        "kept_orders": len(flat),
        "distinct_orders": len(np.unique(flat, axis=0)),
        "effective_distinct_orders": effective_count(flat),
        "log_evidence_trace": log_evidence,
        "log_evidence_by_chain": log_evidence.mean(axis=1),
        "log_evidence_spread": log_evidence.std(axis=1),
    }


def warn_of_doubts(figures: Mapping[str, Any]) -> None:
    """Warn of chains that are far apart or alone, and of tables that lack something."""
    for doubt in (_apart(figures), _lacking(figures)):
        if doubt is not None:
            warnings.warn(doubt, ConvergenceWarning, stacklevel=7)


def _apart(figures: Mapping[str, Any]) -> str | None:
    gap = figures["half_disagreement"]
    if np.isnan(gap):
        return (
            "there is a single chain, so that nobody can judge whether it has found the posterior. "
            "With more `chains`, halves of them are compared."
        )
    if gap <= APART:
        return None
    ended = ENDED.get(figures["status"], "used up their budget")
    return (
        f"the chains {ended} while halves of them still differ by {gap:.2f} in the "
        "probability of an arrow, so single probabilities may be wrong by about half of that. "
        "Give them more time (a larger `orders`, or `rounds` for a guide), more `chains`, or a "
        "prior that says more; diagnostics['half_disagreement'] has the number."
    )


ENDED = {"converged": "ended by `agreement`", "time": "ran out of time"}
"""How chains ended, in words."""


def _lacking(figures: Mapping[str, Any]) -> str | None:
    if "settled" not in figures:
        return None
    if not figures["searched_again"]:
        return (
            "time ran out before a fresh search could look for parent sets that are missing; some "
            "arrows may be wrong. Allow more `minutes`."
        )
    if not figures["settled"] or figures["outside"] > GrowthSettings.missing:
        return (
            "parent sets that matter were still being found when the fit ended, so that arrows may "
            "be missing. Allow more `rounds` or `minutes`; diagnostics['rounds'] says what each "
            "round found."
        )
    if not figures["searches_agree"]:
        return (
            "only one of several independent searches came to the graphs that the fit reports, so "
            "that better ones may exist. Allow more `searches` or `search_sweeps`."
        )
    return None
