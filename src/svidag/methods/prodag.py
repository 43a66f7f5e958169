"""`prodag`: a Gaussian over weighted graphs, projected onto acyclic ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from svidag.methods.base import Method, MethodResult, Run, Support
from svidag.methods.gradient_diagnostics import (
    GradientDiagnostics,
    approximate,
    judge_bound,
    judge_rejected,
)
from svidag.methods.gradient_runs import run_steps, training_rows
from svidag.posterior import DrawnGraphs, GraphDistribution
from svidag.posterior.diagnostics import Level, Reason, diagnostic
from svidag.posterior.distributions import MagnitudeGraphs
from svidag.problem import Problem
from svidag.run import streams
from svidag.run.status import Status
from svidag.run.streams import Stream
from svidag.variational.prodag_settings import ProDAGSettings

if TYPE_CHECKING:
    from svidag.run.loop import Outcome
    from svidag.variational.prodag import ProDAGState, ProjectedDraws

SHOWN = {"bound": "ELBO", "edges": "edges"}
"""Diagnostics of a step that progress shows, and what it calls them."""

NETWORK_DRAWS = 100  # draws whose networks predict held-out rows; of linear ones all do


@dataclass(frozen=True, eq=False)
class ProDAGDiagnostics(GradientDiagnostics):
    """What ProDAG reports."""

    radius: float | None = diagnostic("Radius of the ℓ1 ball")
    edges: float = diagnostic("Arrows of a draw, on average")
    cyclic_share: float = diagnostic("Share of draws whose last cycles had to be broken")
    empty_draws: int = diagnostic("Draws in all steps without any arrow")
    zero_strengths: int = diagnostic("Pairs of strength zero in draws of all steps")
    guarded: int = diagnostic("Steps of projections shortened at a singular matrix")


@dataclass(frozen=True)
class ProDAG(ProDAGSettings, Method):
    """A variational posterior over weighted graphs, made acyclic by projection (ProDAG).

    Examples
    --------
    >>> import svidag
    >>> svidag.methods.ProDAG(radius=None).step_draws
    100
    """

    name: ClassVar[str] = "prodag"
    summary: ClassVar[str] = "ProDAG: weighted graphs, projected onto those without cycles."
    support: ClassVar[Support] = Support(mechanisms=("linear", "mlp"), beliefs=False)
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType({"iterations": 150, "draws": 500})

    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Follow the bound, choose the radius by rows that were held out, and draw."""
        from svidag.run import loop
        from svidag.variational import prodag

        values, observed = problem.data.values, ~problem.data.intervened
        train = np.ones(len(values), dtype=bool)
        if self.radius == "held-out":
            train = training_rows(len(values), int(self.held_out * len(values)), run.seed)
        algorithm = prodag.ProDAG(
            prodag.Evidence.of(values[train], observed[train]),
            problem.prior.allowed,
            problem.prior.required,
            run.mechanism,
            self,
        )

        schedule = loop.Schedule(self.iterations, self.chunk, stop=_stopped)
        outcome = run_steps(algorithm, schedule, run, "following the bound", SHOWN)
        radius = algorithm.radius
        if self.radius == "held-out":
            held_out = prodag.Evidence.of(values[~train], observed[~train])
            radius = _choose_radius(self._draw(algorithm, outcome, run, "choice"), held_out, self)
        drawn = self._draw(algorithm, outcome, run, "final")
        strengths = drawn.strengths(radius)
        details = _details(outcome, drawn, strengths, radius)
        return MethodResult(
            self._graphs(strengths, problem.prior.required),
            None,
            run.mechanism,
            outcome.status,
            tuple(_judge(details, outcome.status)),
            details,
        )

    def _draw(
        self, algorithm: Any, outcome: Outcome[ProDAGState], run: Run, purpose: str
    ) -> ProjectedDraws:
        from svidag.variational.prodag import central_path, draw_projected

        stream = Stream.RADIUS_DRAWS if purpose == "choice" else Stream.GUIDE_DRAWS
        run.report("projecting draws", 0, None)
        return draw_projected(
            outcome.state.guide,
            algorithm.allowed,
            algorithm.required,
            central_path(self, run.mechanism, final=True),
            streams.key(run.seed, stream),
            self.draws,
        )

    def _graphs(
        self, strengths: Float[np.ndarray, "S m m"], required: Bool[np.ndarray, "m m"]
    ) -> GraphDistribution:
        if self.edges == "normalised":
            return MagnitudeGraphs.of(strengths)
        return DrawnGraphs.equal(((strengths > 0) | required).astype(np.uint8))


def _stopped(trace: Mapping[str, np.ndarray]) -> bool:
    return bool(trace["stopped"][-1])


def _choose_radius(drawn: ProjectedDraws, held_out: Any, settings: ProDAGSettings) -> float:
    """The radius of the lowest error of held-out rows, up to the mean ℓ1 norm without a ball."""
    largest = float(drawn.strengths(float("inf")).sum(axis=(1, 2)).mean())
    radii = np.linspace(0.0, largest, settings.radii)
    linear = len(drawn.weights.weights) == 1
    most = len(drawn.support.kept) if linear else NETWORK_DRAWS
    errors = [drawn.error(held_out, float(radius), most) for radius in radii]
    return float(radii[int(np.argmin(errors))])


def _details(
    outcome: Outcome[ProDAGState],
    drawn: ProjectedDraws,
    strengths: Float[np.ndarray, "S m m"],
    radius: float,
) -> ProDAGDiagnostics:
    trace = outcome.trace
    taken = trace["stopped"] == 0
    common = GradientDiagnostics.of(outcome)
    kept = {k: np.asarray(v, float)[taken] for k, v in trace.items() if k != "stopped"}
    return ProDAGDiagnostics(
        **common | {"steps": int(taken.sum()), "trace": kept},
        radius=radius if np.isfinite(radius) else None,
        edges=float((strengths > 0).sum(axis=(1, 2)).mean()),
        cyclic_share=float((drawn.support.broken > 0).mean()),
        empty_draws=int(trace["empty"].sum()),
        zero_strengths=int(trace["zero_strengths"].sum()),
        guarded=int(trace["guarded"].sum()),
    )


def _judge(found: ProDAGDiagnostics, status: Status) -> Iterator[Reason]:
    yield approximate("A variational approximation (ProDAG)")
    yield from judge_rejected(found)
    if found.radius == 0:
        yield Reason(
            Level.NOT,
            "Held-out rows are predicted best without any arrow: every draw is the empty graph.",
        )
    if status is Status.CONVERGED:
        yield Reason(Level.TRUST, "The bound (ELBO) had stopped rising.")
    else:
        yield judge_bound(found.trace["bound"])
