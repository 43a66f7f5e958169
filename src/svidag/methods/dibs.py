"""`dibs`: Stein particles over latent representations of graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, UInt8

from svidag.graph import are_dags
from svidag.methods.base import Method, MethodResult, Run, Support
from svidag.methods.edge_beliefs import edge_probability, states_beliefs
from svidag.methods.gradient_diagnostics import GradientDiagnostics, approximate, judge_rejected
from svidag.methods.gradient_runs import run_steps
from svidag.posterior import DrawnGraphs
from svidag.posterior.diagnostics import Level, Reason, diagnostic
from svidag.problem import Problem
from svidag.variational.dibs_settings import DiBSSettings

if TYPE_CHECKING:
    from svidag.run.loop import Outcome
    from svidag.variational.dibs import DiBSState, JointDiBS, MarginalDiBS

MOST_PROBABLE = 0.5
"""An edge of the usual prior is no more probable than this; d ≤ 5 would ask for 1 and more."""

DOMINANT = 0.9
"""Mean share of the heaviest graph from which a gradient rests on one graph alone."""

FEW = 5
"""Distinct graphs below which edge probabilities are coarse."""

SHOWN = {"likelihood": "log likelihood", "edges": "edges"}
"""Diagnostics of a step that progress shows, and what it calls them."""


@dataclass(frozen=True, eq=False)
class DiBSDiagnostics(GradientDiagnostics):
    """What DiBS reports."""

    particles: int = diagnostic("Particles")
    cyclic_share: float = diagnostic("Share of particles that were dropped because of a cycle")
    repaired: bool = diagnostic("All particles were cyclic: edges that close a cycle were left out")
    distinct_graphs: int = diagnostic("Distinct graphs")
    largest_weight: float = diagnostic("Share of the heaviest graph in a gradient, last tenth")
    prior_clipped: bool = diagnostic("The usual edge probability was cut to ½")


@dataclass(frozen=True)
class DiBS(DiBSSettings, Method):
    """Stein variational gradient descent on latent vectors whose products are edge logits.

    Examples
    --------
    >>> import svidag
    >>> svidag.methods.DiBS(iterations=500).particles
    20
    """

    name: ClassVar[str] = "dibs"
    summary: ClassVar[str] = "DiBS: Stein particles over latent representations of graphs."
    support: ClassVar[Support] = Support(mechanisms=("linear", "mlp"))
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"iterations": 200, "graph_draws": 32, "edge_slope": 0.1, "weights": "evidence"}
    )

    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Let the particles move, and take the graphs of those without a cycle."""
        from svidag.mechanisms.integrated import parameter_distribution
        from svidag.run import loop

        settings = self.resolve(run.mechanism)
        algorithm, clipped = _algorithm(problem, settings, run.mechanism)

        schedule = loop.Schedule(self.iterations, self.chunk)
        outcome: Outcome[DiBSState] = run_steps(algorithm, schedule, run, "moving particles", SHOWN)
        scores = np.asarray(outcome.state.latent.scores)
        graphs, kept = _graphs(scores, problem)
        weights = _weights(algorithm, outcome.state, graphs, kept, self.weights)
        details = _details(outcome, graphs, kept, clipped)
        known = getattr(algorithm, "scores", None)
        return MethodResult(
            DrawnGraphs(graphs, weights),
            None if known is None else parameter_distribution(known, problem.scaling),
            run.mechanism,
            outcome.status,
            tuple(_judge(details)),
            details,
        )

    def resolve(self, mechanism: str) -> DiBS:
        """The settings with what depends on the mechanism filled in."""
        linear = mechanism == "linear"
        usual = {
            "edge_slope": 1.0 if linear else 0.05,
            "graph_draws": 128 if linear else 8,
            "ratio": "graph" if linear else "node",
        }
        return self.completed(usual)


def _algorithm(
    problem: Problem, settings: DiBS, mechanism: str
) -> tuple[MarginalDiBS | JointDiBS, bool]:
    """The algorithm, and whether the usual edge probability had to be cut."""
    import jax

    from svidag.mechanisms.linear import LinearGaussian
    from svidag.variational.dibs import JointDiBS, MarginalDiBS
    from svidag.variational.dibs_target import DiBSTarget

    data, prior = problem.data, problem.prior
    usual = 2 * settings.edges_per_node / (data.m - 1)
    p = edge_probability(prior, min(usual, MOST_PROBABLE))
    log_odds = np.log(p / (1 - p)).astype(np.float32)
    target = DiBSTarget(*jax.device_put((log_odds, prior.free, prior.required)))
    clipped = usual > MOST_PROBABLE and not states_beliefs(prior)
    if mechanism == "linear":
        scores = LinearGaussian.from_values(data.values, data.intervened)
        return MarginalDiBS(scores, target, settings), clipped
    values, observed = jax.device_put((data.values.astype(np.float32), ~data.intervened))
    return JointDiBS(values, observed, target, settings), clipped


def _graphs(
    scores: Float[np.ndarray, "K m m"], problem: Problem
) -> tuple[UInt8[np.ndarray, "k m m"], Bool[np.ndarray, " K"]]:
    """Graphs of the particles without a cycle, and which these are.

    Where all have one, each keeps its edges from the highest score down, without those that close a
    cycle.
    """
    prior = problem.prior
    graphs = np.where(prior.free, scores > 0, prior.required).astype(np.uint8)
    kept = are_dags(graphs)
    if kept.any():
        return graphs[kept], kept
    ranked = np.where(prior.required, np.inf, scores)
    pairs = zip(graphs, ranked, strict=True)
    return np.stack([without_cycles(graph, rank) for graph, rank in pairs]), kept


def without_cycles(
    graph: UInt8[np.ndarray, "m m"], ranked: Float[np.ndarray, "m m"]
) -> UInt8[np.ndarray, "m m"]:
    """The edges from the highest rank down, without those that close a cycle.

    Examples
    --------
    >>> both = np.array([[0, 1], [1, 0]], dtype=np.uint8)
    >>> without_cycles(both, np.array([[0.0, 1.0], [2.0, 0.0]])).tolist()
    [[0, 0], [1, 0]]
    """
    reach = np.eye(len(graph), dtype=bool)  # [i, j]: there is a path from i to j
    out = np.zeros_like(graph)
    causes, effects = np.nonzero(graph)
    for at in np.argsort(-ranked[causes, effects], kind="stable"):
        i, j = causes[at], effects[at]
        if not reach[j, i]:
            out[i, j] = 1
            reach |= np.outer(reach[:, i], reach[j])
    return out


def _weights(
    algorithm: MarginalDiBS | JointDiBS,
    state: DiBSState,
    graphs: UInt8[np.ndarray, "k m m"],
    kept: Bool[np.ndarray, " K"],
    rule: str,
) -> Float[np.ndarray, " k"]:
    if rule == "equal":
        return np.full(len(graphs), 1 / len(graphs))
    from svidag.variational.dibs import particle_evidence

    evidence = particle_evidence(algorithm, state, graphs, kept if kept.any() else ~kept)
    weights = np.exp(evidence - evidence.max())
    return weights / weights.sum()


def _details(
    outcome: Outcome[DiBSState],
    graphs: UInt8[np.ndarray, "k m m"],
    kept: Bool[np.ndarray, " K"],
    clipped: bool,
) -> DiBSDiagnostics:
    last = outcome.trace["largest_weight"][-max(1, outcome.steps // 10) :]
    return DiBSDiagnostics(
        **GradientDiagnostics.of(outcome),
        particles=len(kept),
        cyclic_share=float((~kept).mean()),
        repaired=not kept.any(),
        distinct_graphs=len(np.unique(graphs, axis=0)),
        largest_weight=float(last.mean()) if len(last) else float("nan"),
        prior_clipped=clipped,
    )


def _judge(found: DiBSDiagnostics) -> Iterator[Reason]:
    yield approximate(f"A posterior of {found.particles} particles (DiBS)")
    yield from judge_rejected(found)
    if found.repaired:
        yield Reason(
            Level.NOT,
            "The graphs of all particles had cycles; they were broken at the edges of the lowest "
            "score. Take more steps (`iterations`).",
        )
    elif found.cyclic_share > 0:
        text = f"{found.cyclic_share:.0%} of the particles had a cycle and were dropped."
        yield Reason(Level.CAREFUL if found.cyclic_share < 0.5 else Level.NOT, text)
    else:
        yield Reason(Level.TRUST, "No particle had a cycle.")
    if found.distinct_graphs < FEW:
        text = f"There are {found.distinct_graphs} distinct graphs: probabilities are coarse."
        yield Reason(Level.CAREFUL, text)
    if found.largest_weight > DOMINANT:
        yield Reason(
            Level.CAREFUL,
            "Gradients rested on one graph alone: of all that were drawn for one, the heaviest had "
            f"{found.largest_weight:.0%} of the weight. `ratio='node'` spreads it.",
        )
