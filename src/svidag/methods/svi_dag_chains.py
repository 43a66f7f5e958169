"""`svi-dag` with chains: a guide for the parents of each node, and Metropolis moves of orders."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from svidag.mechanisms.local import CachedScores, LocalScores, with_edge_changes
from svidag.methods.base import MethodResult, Run
from svidag.methods.chain_diagnostics import (
    ChainDiagnostics,
    chain_status,
    chain_values,
    judge_chains,
)
from svidag.methods.mechanism_choice import IntegratedMechanism
from svidag.posterior.diagnostics import Level, Reason, diagnostic
from svidag.problem import Problem
from svidag.samplers.ladder import ladder
from svidag.variational.settings import VariationalSettings

if TYPE_CHECKING:
    from svidag.variational.node_inference import InferenceResult

NOISY, UNKNOWN = 1.5, 2.0
"""By how much estimates of an order's log evidence may scatter, and fall short."""


@dataclass(frozen=True, eq=False)
class GuideDiagnostics(ChainDiagnostics):
    """What chains report, and how well the guide knows the evidence of their orders."""

    sweeps: int = diagnostic("Sweeps of each chain")
    accepted: Float[np.ndarray, " chains"] = diagnostic("Share of proposed orders accepted")
    graphs: int = diagnostic("Graphs kept")
    kept_sets: int = diagnostic("Parent sets kept from training")
    scored_sets: int | None = diagnostic("Parent sets scored")
    estimate_spread: float | None = diagnostic(
        "Standard deviation of an order's estimated log evidence"
    )
    kept_share: float | None = diagnostic("Share of an order's evidence in kept parent sets")
    kept_missing: float | None = diagnostic(
        "Log evidence missing from kept sets, worst order nearby"
    )
    bound_trace: Float[np.ndarray, " steps"] = diagnostic(
        "Bound while the guide was trained", trace=True
    )


def fit_chains(
    settings: VariationalSettings, problem: Problem, run: Run, mechanism: IntegratedMechanism
) -> MethodResult:
    """Train a guide for each node, then move orders by unbiased estimates of their evidence."""
    from svidag.samplers.sampled_graphs import VisitedGraphs
    from svidag.variational.node_inference import NodeInference

    rows, m = problem.data.values.shape
    flattest, levels = ladder(rows, m, settings.flattest, settings.levels)
    settings = dataclasses.replace(settings, flattest=flattest, levels=levels)
    scores = with_edge_changes(mechanism.scores)

    found = NodeInference(scores, problem.prior, settings).run(
        run.seed,
        report=run.report,
        keep=lambda snapshot: run.checkpoint.keep("guide", snapshot),
        resume=run.resumed("guide"),
        expired=run.deadline.passed,
    )
    sampling = found.sampling
    details = _details(found, settings, scores)
    over = run.deadline.passed()
    status = chain_status(settings.enough, sampling.edges, sampling.log_evidence, time_is_over=over)
    return mechanism.result(
        problem,
        VisitedGraphs(sampling.graphs.reshape(-1, m, m), found.edge_probabilities),
        status,
        (*judge_chains(details, status, budget="rounds"), *_judge_guide(details)),
        details,
    )


def _details(
    found: InferenceResult, settings: VariationalSettings, scores: LocalScores
) -> GuideDiagnostics:
    sampling = found.sampling
    estimated = settings.correction == "pseudo-marginal"
    return GuideDiagnostics(
        **chain_values(sampling.edges, sampling.orders, sampling.log_evidence),
        sweeps=settings.sweeps * sampling.length,
        accepted=found.accepted,
        graphs=math.prod(sampling.graphs.shape[:2]),
        kept_sets=int(found.kept.count.sum()),
        scored_sets=len(scores) if isinstance(scores, CachedScores) else None,
        estimate_spread=found.estimate_spread if estimated else None,
        kept_share=found.known_share if estimated else None,
        kept_missing=found.missing if estimated else None,
        bound_trace=found.bounds,
    )


def _judge_guide(found: GuideDiagnostics) -> Iterator[Reason]:
    if found.estimate_spread is None or found.kept_missing is None:
        text = "The guide was not corrected: its graphs follow the guide, not the posterior."
        yield Reason(Level.CAREFUL, text)
        return
    if not found.estimate_spread <= NOISY:
        yield Reason(
            Level.CAREFUL,
            "The log evidence of an order is known only up to a standard deviation of "
            f"{found.estimate_spread:.1f}, so that the chains hardly move; train the guide longer "
            "(`iterations`).",
        )
    if not found.kept_missing <= UNKNOWN:
        yield Reason(
            Level.CAREFUL,
            "Orders close to those that were visited lack up to "
            f"{found.kept_missing:.1f} of their log evidence, so that the chains may avoid them; "
            "train the guide longer (`iterations`).",
        )
    if found.estimate_spread <= NOISY and found.kept_missing <= UNKNOWN:
        text = "The guide knows the evidence of the orders that matter well enough."
        yield Reason(Level.TRUST, text)
