"""`bcd-nets`: weights of a linear model and an order given these, by variational inference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float

from svidag.methods.base import Method, MethodResult, Run, Support
from svidag.methods.gradient_diagnostics import (
    GradientDiagnostics,
    approximate,
    judge_bound,
    judge_rejected,
)
from svidag.methods.gradient_runs import run_steps
from svidag.posterior import DrawnGraphs, GraphDistribution
from svidag.posterior.diagnostics import Level, Reason, diagnostic
from svidag.posterior.distributions import MagnitudeGraphs
from svidag.problem import Problem
from svidag.run import streams
from svidag.run.streams import Stream
from svidag.variational.bcd_settings import BCDSettings

if TYPE_CHECKING:
    from svidag.run.loop import Outcome
    from svidag.variational.bcd import BCDState, Moments

SHOWN = {"bound": "ELBO", "edges": "edges"}
"""Diagnostics of a step that progress shows, and what it calls them."""

LOOSE = 0.05
"""Row error of relaxed orders, in nine steps of ten, above which their derivative is doubtful."""


@dataclass(frozen=True, eq=False)
class BCDDiagnostics(GradientDiagnostics):
    """What BCD Nets report."""

    horseshoe_scale: float = diagnostic("Scale of the prior on weights")
    temperature: float = diagnostic("Temperature of the order at the end")
    edges: float = diagnostic("Arrows of a draw, on average")
    row_error: float = diagnostic("Row error of relaxed orders, exceeded in a tenth of the steps")
    poles: int = diagnostic("Weights of all steps kept from the pole of their prior")


@dataclass(frozen=True)
class BCDNets(BCDSettings, Method):
    """A Gaussian over weights and noise, a network over orders given these (BCD Nets).

    Examples
    --------
    >>> import svidag
    >>> svidag.methods.BCDNets(step_draws=256).threshold
    0.3
    """

    name: ClassVar[str] = "bcd-nets"
    summary: ClassVar[str] = "BCD Nets: weights of a linear model, and an order given these."
    support: ClassVar[Support] = Support(
        mechanisms=("linear",), beliefs=False, hard_knowledge=False
    )
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            "iterations": 300,
            "step_draws": 16,
            "learning_rate": 0.02,
            "hidden": (16,),
            "temperatures": (1.0,),
            "draws": 500,
        }
    )

    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Follow the bound and draw."""
        from svidag.run import loop
        from svidag.variational import bcd

        algorithm = bcd.BCDNets(_moments(problem), self)

        schedule = loop.Schedule(self.iterations, self.chunk)
        outcome = run_steps(algorithm, schedule, run, "following the bound", SHOWN)
        tau = algorithm.temperature(outcome.steps)
        key = streams.key(run.seed, Stream.GUIDE_DRAWS)
        weights = bcd.draw_weights(outcome.state.guide, key, tau, self.draws, problem.data.m)
        details = _details(outcome, algorithm.scale, tau, np.abs(weights) > self.threshold)
        return MethodResult(
            self._graphs(weights),
            None,
            run.mechanism,
            outcome.status,
            tuple(_judge(details)),
            details,
        )

    def _graphs(self, weights: Float[np.ndarray, "S m m"]) -> GraphDistribution:
        if self.edges == "normalised":
            return MagnitudeGraphs.of(weights)
        return DrawnGraphs.equal((np.abs(weights) > self.threshold).astype(np.uint8))


def _moments(problem: Problem) -> Moments:
    import jax

    from svidag.mechanisms.moments import second_moments
    from svidag.variational.bcd import Moments

    values, observed = problem.data.values, ~problem.data.intervened
    N = len(values)
    second = second_moments(values, observed) / N
    rows = observed.sum(axis=0).astype(np.float32)
    return Moments(jax.device_put(second.astype(np.float32)), jax.device_put(rows), N)


def _details(
    outcome: Outcome[BCDState], scale: float, tau: float, graphs: np.ndarray
) -> BCDDiagnostics:
    trace = outcome.trace
    return BCDDiagnostics(
        **GradientDiagnostics.of(outcome),
        horseshoe_scale=scale,
        temperature=tau,
        edges=float(graphs.sum(axis=(1, 2)).mean()),
        row_error=float(np.quantile(trace["row_error"], 0.9)),
        poles=int(trace["poles"].sum()),
    )


def _judge(found: BCDDiagnostics) -> Iterator[Reason]:
    yield approximate("A variational approximation (BCD Nets)")
    yield from judge_rejected(found)
    yield judge_bound(found.trace["bound"])
    if found.row_error > LOOSE:
        yield Reason(
            Level.CAREFUL,
            f"Rows of relaxed orders were off by {found.row_error:.2f} and more in a tenth of the "
            "steps: derivatives with respect to the order are rough. A higher temperature helps.",
        )
