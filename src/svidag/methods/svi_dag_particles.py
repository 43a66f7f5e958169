"""`svi-dag` with particles: Algorithm 1, as published or with other switches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from svidag.mechanisms.local import with_edge_changes
from svidag.methods.base import MethodResult, Run
from svidag.methods.gradient_diagnostics import (
    GradientDiagnostics,
    approximate,
    judge_bound,
    judge_rejected,
)
from svidag.methods.gradient_runs import run_steps
from svidag.methods.mechanism_choice import IntegratedMechanism
from svidag.posterior.diagnostics import Reason
from svidag.problem import Problem
from svidag.run.convergence import Plateau
from svidag.variational.settings import VariationalSettings

if TYPE_CHECKING:
    from svidag.run.loop import Schedule

SHOWN = {"bound": "ELBO", "edges": "edges"}
"""Diagnostics of a step that progress shows, and what it calls them."""


def fit_particles(
    settings: VariationalSettings,
    problem: Problem,
    run: Run,
    mechanism: IntegratedMechanism | None,
) -> MethodResult:
    """Run Algorithm 1 and take its guide for the posterior; without a mechanism it trains one."""
    from svidag.variational.particle_algorithm import IntegratedParticles, ParticleAlgorithm
    from svidag.variational.particle_bound import Rows
    from svidag.variational.particle_posterior import GuideGraphs, NetworkParameters

    particles = ParticleAlgorithm.build(
        Rows.of(problem.data),
        problem.prior.to_jax(),
        settings,
        run.seed,
        integrated=mechanism is not None,
    )
    algorithm = particles
    if mechanism is not None:
        algorithm = IntegratedParticles(particles, with_edge_changes(mechanism.scores))

    outcome = run_steps(algorithm, _schedule(settings), run, "following the bound", SHOWN)
    networks = particles.complete(outcome.state.networks)
    graphs = GuideGraphs(networks, outcome.state.orders, particles.prior)
    details = GradientDiagnostics(**GradientDiagnostics.of(outcome))
    reasons = tuple(_judge(details))
    if mechanism is not None:
        return mechanism.result(problem, graphs, outcome.status, reasons, details)
    parameters = NetworkParameters(networks, problem.scaling)
    return MethodResult(graphs, parameters, run.mechanism, outcome.status, reasons, details)


def _schedule(settings: VariationalSettings) -> Schedule:
    from svidag.run.loop import Schedule

    stop = None if settings.patience is None else Plateau("bound", settings.patience)
    return Schedule(settings.iterations, settings.chunk, stop=stop)


def _judge(found: GradientDiagnostics) -> Iterator[Reason]:
    yield approximate("A variational approximation by particles")
    yield from judge_rejected(found)
    yield judge_bound(np.asarray(found.trace["bound"], dtype=float))
