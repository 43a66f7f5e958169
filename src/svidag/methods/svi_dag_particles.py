"""`svi-dag` with particles: Algorithm 1, as published or with other switches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from svidag.mechanisms.integrated import parameter_distribution
from svidag.methods.base import MethodResult, Run
from svidag.methods.gradient_diagnostics import (
    GradientDiagnostics,
    approximate,
    judge_bound,
    judge_rejected,
)
from svidag.methods.gradient_runs import run_steps
from svidag.methods.svi_dag_chains import integrated, with_changes
from svidag.posterior.diagnostics import Reason
from svidag.problem import Problem
from svidag.run.convergence import Plateau
from svidag.variational.settings import VariationalSettings

if TYPE_CHECKING:
    from svidag.run.loop import Schedule

SHOWN = {"bound": "ELBO", "edges": "edges"}
"""Diagnostics of a step that progress shows, and what it calls them."""


def fit_particles(settings: VariationalSettings, problem: Problem, run: Run) -> MethodResult:
    """Run Algorithm 1 and take its guide for the posterior."""
    from svidag.variational.particle_posterior import GuideGraphs

    route = _networks if run.mechanism == "mlp" else _integrated
    algorithm, inner, finish = route(settings, problem, run)

    schedule = _schedule(settings)
    outcome = run_steps(algorithm, schedule, run, "following the bound", SHOWN)
    networks = inner.complete(outcome.state.networks)
    details = GradientDiagnostics(**GradientDiagnostics.of(outcome))
    return MethodResult(
        GuideGraphs(networks, outcome.state.orders, inner.prior),
        status=outcome.status,
        reasons=tuple(_judge(details)),
        details=details,
        **finish(networks),
    )


def _networks(settings: VariationalSettings, problem: Problem, run: Run) -> tuple[Any, Any, Any]:
    """The algorithm with Bayesian networks, and what these add to the result."""
    from svidag.variational.particle_algorithm import ParticleAlgorithm
    from svidag.variational.particle_bound import Rows
    from svidag.variational.particle_posterior import NetworkParameters

    algorithm = ParticleAlgorithm.build(
        Rows.of(problem.data), problem.prior.to_jax(), settings, run.seed
    )

    def finish(networks: Any) -> dict[str, Any]:
        return {"parameters": NetworkParameters(networks, problem.scaling), "mechanism": "mlp"}

    return algorithm, algorithm, finish


def _integrated(settings: VariationalSettings, problem: Problem, run: Run) -> tuple[Any, Any, Any]:
    """The algorithm with an integrated mechanism, and what that adds to the result."""
    from svidag.variational.particle_algorithm import IntegratedParticles, ParticleAlgorithm
    from svidag.variational.particle_bound import Rows

    mechanism = integrated(settings, problem, run)
    inner = ParticleAlgorithm.build(
        Rows.of(problem.data), problem.prior.to_jax(), settings, run.seed, integrated=True
    )

    def finish(networks: Any) -> dict[str, Any]:
        return {
            "parameters": parameter_distribution(mechanism.scores, problem.scaling),
            "mechanism": mechanism.name,
            "mechanism_margin": mechanism.margin,
            "mechanism_runner_up": mechanism.runner_up,
        }

    return IntegratedParticles(inner, with_changes(mechanism.scores)), inner, finish


def _schedule(settings: VariationalSettings) -> Schedule:
    from svidag.run.loop import Schedule

    stop = None if settings.patience is None else Plateau("bound", settings.patience)
    return Schedule(settings.iterations, settings.chunk, stop=stop)


def _judge(found: GradientDiagnostics) -> Iterator[Reason]:
    yield approximate("A variational approximation by particles")
    yield from judge_rejected(found)
    yield judge_bound(np.asarray(found.trace["bound"], dtype=float))
