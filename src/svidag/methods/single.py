"""One fit of one problem by one method; a mixture consists of several of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from svidag.methods.base import Method, MethodResult, Run
from svidag.posterior import Posterior
from svidag.posterior.diagnostics import Diagnostics
from svidag.posterior.structure_weights import structure_weighted
from svidag.problem import Problem
from svidag.run.checkpoint import Checkpoint, SavedState
from svidag.run.deadline import Deadline
from svidag.run.pools import Pool, Threads


def fit_problem(
    problem: Problem,
    method: Method,
    *,
    mechanism: str,
    graph_weights: str,
    coarsen: float | None,
    seed: int,
    report: Callable[..., None],
    deadline: Deadline,
    checkpoint: Checkpoint | None = None,
    saved: SavedState | None = None,
    identity: Mapping[str, Any] | None = None,
    pool: Pool | None = None,
) -> Posterior:
    """Run the method, and weigh graphs as asked where it does not do so itself."""
    started = time.perf_counter()
    own_weights = graph_weights if method.support.structure_weights else "order"
    run = Run(
        method.support.mechanism(mechanism),
        own_weights,
        seed,
        report,
        Checkpoint(None, {}) if checkpoint is None else checkpoint,
        saved,
        deadline,
        coarsen,
        pool or Threads(),
    )
    result = method.run(problem, run)
    run.checkpoint.write()
    posterior = _posterior(problem, method, run, result, identity or {}, started)
    return posterior if graph_weights == own_weights else structure_weighted(posterior, seed)


def _posterior(
    problem: Problem,
    method: Method,
    run: Run,
    result: MethodResult,
    identity: Mapping[str, Any],
    started: float,
) -> Posterior:
    diagnostics = Diagnostics(
        method=method.name,
        mechanism=result.mechanism,
        status=result.status,
        seconds=time.perf_counter() - started,
        reasons=result.reasons,
        settings=method.identity(),
        fingerprint=identity,
        mechanism_margin=result.mechanism_margin,
        mechanism_runner_up=result.mechanism_runner_up,
        graph_weights=run.graph_weights,
        details=result.details,
        changes=result.changes,
    )
    return Posterior(
        problem.data.names,
        result.graphs,
        result.parameters,
        log_evidence=result.log_evidence,
        diagnostics=diagnostics,
        problem=problem,
    )
