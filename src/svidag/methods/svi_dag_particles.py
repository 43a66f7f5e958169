"""`svi-dag` with particles: Algorithm 1, as published or with other switches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from svidag.mechanisms.collapsed import parameter_distribution
from svidag.methods.base import MethodResult, Run
from svidag.methods.svi_dag_chains import integrated, with_changes
from svidag.posterior.diagnostics import Details, Level, Reason, diagnostic
from svidag.problem import Problem
from svidag.run.convergence import Plateau
from svidag.variational.settings import VariationalSettings

if TYPE_CHECKING:
    from svidag.run.loop import Outcome, Schedule

SHOWN = (("bound", "ELBO"), ("edges", "edges"))
"""Diagnostics of a step that progress shows, and what it calls them."""

MANY_REJECTED = 0.05
"""Share of steps left out, because they were not finite, from which a fit is not to be trusted."""

CLIMBING = 0.02
"""Gain of the bound in the last tenth of the steps, as a share of the whole gain."""

TRACES = {
    "bound": "Bound (ELBO)",
    "log_likelihood": "Expected log likelihood",
    "parameters": "Bound: parameters",
    "noise": "Bound: noise",
    "log_prior": "Bound: prior of edges",
    "entropy": "Bound: entropy of edges",
    "edges": "Edges",
    "row_error": "Row error of the relaxed order",
    "spread": "Spread of the particles",
    "bandwidth": "Kernel bandwidth",
    "clipped": "Share of particle scores clipped",
    "rejected": "Steps left out in a row",
    "potentials": "Potentials",
}
"""What the report calls the traces of a step's diagnostics."""


@dataclass(frozen=True, eq=False)
class GradientDiagnostics(Details):
    """What a method that follows gradients reports."""

    steps: int = diagnostic("Steps")
    rejected_steps: int = diagnostic("Steps left out because they were not finite")
    compile_seconds: float = diagnostic("Seconds to compile")
    run_seconds: float = diagnostic("Seconds to run")
    trace: Mapping[str, np.ndarray] = diagnostic("Diagnostics of every step", trace=True)

    def traces(self) -> dict[str, np.ndarray]:
        """Arrays [1, steps] by the words that stand beside them."""
        return {TRACES.get(name, name): np.atleast_2d(x) for name, x in self.trace.items()}


def fit_particles(settings: VariationalSettings, problem: Problem, run: Run) -> MethodResult:
    """Run Algorithm 1 and take its guide for the posterior."""
    from svidag.run import loop
    from svidag.variational.particle_posterior import GuideGraphs

    route = _networks if run.mechanism == "mlp" else _integrated
    algorithm, inner, finish = route(settings, problem, run)

    def report(done: int, trace: loop.Trace) -> None:
        shown = {label: float(trace[name][-1]) for name, label in SHOWN if len(trace.get(name, ()))}
        run.report("following the bound", done, settings.iterations, shown)

    outcome = loop.run(
        algorithm,
        loop.Keys.of_seed(run.seed),
        _schedule(settings),
        report=report,
        keep=lambda snapshot: run.checkpoint.keep("steps", snapshot),
        resume=run.resumed("steps"),
        expired=run.deadline.passed,
    )
    networks = inner.complete(outcome.state.networks)
    details = _details(outcome)
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
        }

    return IntegratedParticles(inner, with_changes(mechanism.scores)), inner, finish


def _schedule(settings: VariationalSettings) -> Schedule:
    from svidag.run.loop import Schedule

    stop = None if settings.patience is None else Plateau("bound", settings.patience)
    return Schedule(settings.iterations, settings.chunk, stop=stop)


def _details(outcome: Outcome[Any]) -> GradientDiagnostics:
    return GradientDiagnostics(
        steps=outcome.steps,
        rejected_steps=int((outcome.trace["rejected"] > 0).sum()),
        compile_seconds=outcome.compile_seconds,
        run_seconds=outcome.run_seconds,
        trace=outcome.trace,
    )


def _judge(found: GradientDiagnostics) -> Iterator[Reason]:
    yield Reason(
        Level.CAREFUL,
        "A variational approximation by particles: the run does not show how far it is from the "
        "posterior. The methods 'order-mcmc' and 'exact' do.",
    )
    if found.rejected_steps:
        many = found.rejected_steps > MANY_REJECTED * found.steps
        text = f"{found.rejected_steps} of {found.steps} steps were not finite and were left out."
        yield Reason(Level.NOT if many else Level.CAREFUL, text)
    yield _judge_bound(np.asarray(found.trace["bound"], dtype=float))


def _judge_bound(bound: np.ndarray) -> Reason:
    tenth = len(bound) // 10
    if tenth < 2:
        return Reason(Level.NOT, f"{len(bound)} steps are too few to say anything.")
    first, before, last = bound[:tenth], bound[-2 * tenth : -tenth], bound[-tenth:]
    gain, whole = last.mean() - before.mean(), last.mean() - first.mean()
    noise = math.sqrt((last.var(ddof=1) + before.var(ddof=1)) / tenth)
    if not math.isfinite(gain) or whole <= 0:
        return Reason(Level.NOT, "The bound (ELBO) did not rise: the fit learned nothing.")
    if gain > CLIMBING * whole and gain > 2 * noise:
        text = f"The bound (ELBO) was still rising at the end, by {gain:.1f} in the last tenth."
        return Reason(Level.CAREFUL, text)
    return Reason(Level.TRUST, "The bound (ELBO) had levelled off.")
