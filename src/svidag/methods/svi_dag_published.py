"""`svi-dag-published`: Algorithm 1 with the paper's own choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from svidag.methods.base import Method, MethodResult, Run, Support
from svidag.methods.gradient_diagnostics import (
    GradientDiagnostics,
    judge_bound,
    judge_rejected,
    latest,
)
from svidag.posterior.diagnostics import Level, Reason
from svidag.problem import Problem
from svidag.run.convergence import Plateau
from svidag.variational.settings import PublishedSettings

if TYPE_CHECKING:
    from svidag.run.loop import Schedule

SHOWN = {"bound": "ELBO", "edges": "edges"}
"""Diagnostics of a step that progress shows, and what it calls them."""


@dataclass(frozen=True)
class PublishedSVIDAG(PublishedSettings, Method):
    """Stein particles over orders, a flow over edges, Bayesian networks: Algorithm 1 as published.

    Examples
    --------
    >>> import svidag
    >>> svidag.methods.PublishedSVIDAG(iterations=500).particles
    20
    """

    name: ClassVar[str] = "svi-dag-published"
    summary: ClassVar[str] = "Structured variational inference, Algorithm 1 of the paper."
    support: ClassVar[Support] = Support(mechanisms=("mlp",))
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            "iterations": 400,
            "hidden": (8,),
            "hyper": (8,),
            "blocks": 2,
            "width": 16,
            "edge_gradient": "difference",
        }
    )

    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Run Algorithm 1 and take its guide for the posterior."""
        from svidag.run import loop
        from svidag.variational.published_algorithm import PublishedAlgorithm
        from svidag.variational.published_bound import Rows
        from svidag.variational.published_posterior import GuideGraphs, NetworkParameters

        algorithm = PublishedAlgorithm.build(
            Rows.of(problem.data), problem.prior.to_jax(), self, run.seed
        )

        def report(done: int, trace: loop.Trace) -> None:
            run.report("following the bound", done, self.iterations, latest(trace, SHOWN))

        outcome = loop.run(
            algorithm,
            loop.Keys.of_seed(run.seed),
            _schedule(self),
            report=report,
            keep=lambda snapshot: run.checkpoint.keep("steps", snapshot),
            resume=run.resumed("steps"),
            expired=run.deadline.passed,
        )
        networks = algorithm.complete(outcome.state.networks)
        details = GradientDiagnostics(**GradientDiagnostics.of(outcome))
        return MethodResult(
            GuideGraphs(networks, outcome.state.orders, algorithm.prior),
            NetworkParameters(networks, problem.scaling),
            "mlp",
            outcome.status,
            tuple(_judge(details)),
            details,
        )

    def identity(self) -> dict[str, Any]:
        """The settings as far as they can be compared from one run to the next.

        Functions have no lasting name, so of an optimiser of one's own only its presence is known;
        a checkpoint is refused where the shapes of its state differ. Chunks change no number.
        """
        values = self.values()
        for name in ("optimiser", "particle_optimiser"):
            values[name] = None if values[name] is None else "given"
        return {name: value for name, value in values.items() if name != "chunk"}


def _schedule(settings: PublishedSettings) -> Schedule:
    from svidag.run.loop import Schedule

    stop = None if settings.patience is None else Plateau("bound", settings.patience)
    return Schedule(settings.iterations, settings.chunk, stop=stop)


def _judge(found: GradientDiagnostics) -> Iterator[Reason]:
    yield Reason(
        Level.CAREFUL,
        "A variational approximation (Algorithm 1 as published): the run does not show how far "
        "it is from the posterior. The methods 'order-mcmc' and 'exact' do.",
    )
    yield from judge_rejected(found)
    yield judge_bound(np.asarray(found.trace["bound"], dtype=float))
