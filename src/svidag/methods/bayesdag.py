"""`bayesdag`: stochastic-gradient chains over orders and parameters, a network over edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, UInt8

from svidag.methods.base import Method, MethodResult, Run, Support
from svidag.methods.edge_beliefs import edge_probability, states_beliefs
from svidag.methods.gradient_diagnostics import (
    GradientDiagnostics,
    approximate,
    judge_rejected,
    latest,
)
from svidag.methods.gradient_runs import SAVED, run_steps, training_rows
from svidag.posterior import DrawnGraphs
from svidag.posterior.diagnostics import Level, Reason, diagnostic
from svidag.problem import Problem
from svidag.run import streams
from svidag.run.streams import Stream
from svidag.variational.bayesdag_settings import BayesDAGSettings

if TYPE_CHECKING:
    from svidag.run.loop import Outcome
    from svidag.variational import bayesdag

SHOWN = {"likelihood": "log likelihood of a row", "edges": "edges"}
"""Diagnostics of an epoch that progress shows, and what it calls them."""

CHOOSING = "choosing"
"""The stage of checkpoints that hold the held-out likelihoods of λ."""

FEW_STEPS = 500
"""Minibatches below which potentials and edges are near where they started."""

CHOICE_DRAWS = 20
"""Graphs of each chain whose predictions of held-out rows are averaged to choose λ."""

MOST_HELD_OUT = 500
"""Held-out rows that are predicted to choose λ, at most."""

DISAGREEMENT = 0.5
"""Difference between two halves of the chains from which an arrow's probability is unsure."""


@dataclass(frozen=True, eq=False)
class BayesDAGDiagnostics(GradientDiagnostics):
    """What BayesDAG reports; a step is an epoch."""

    gradient_steps: int = diagnostic("Minibatches")
    left_out: int = diagnostic("Minibatches with a step left out because it was not finite")
    left_out_draws: int = diagnostic("The same while graphs were drawn")
    sparsity: float = diagnostic("What an arrow costs, λ")
    edges: float = diagnostic("Arrows of a draw, on average")
    disagreement: float = diagnostic(
        "Largest difference of an arrow's probability between two halves of the chains"
    )


@dataclass(frozen=True)
class BayesDAG(BayesDAGSettings, Method):
    """Adam-SGMCMC over potentials and parameters, variational edges given an order (BayesDAG).

    Examples
    --------
    >>> import svidag
    >>> svidag.methods.BayesDAG(sparsity=10.0).chains
    10
    """

    name: ClassVar[str] = "bayesdag"
    summary: ClassVar[str] = "BayesDAG: stochastic-gradient chains over orders, a network of edges."
    support: ClassVar[Support] = Support(mechanisms=("linear", "mlp"))
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            "iterations": 600,
            "sparsity": 3.0,
            "edge_hidden": (16,),
            "draws": 500,
            "chains": 40,
            "order_temperature": 0.2,
        }
    )

    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Choose λ, train, and let the chains go on to draw graphs."""
        from svidag.run.loop import Schedule
        from svidag.variational import bayesdag

        N, settings = problem.data.n_rows, self.resolve(run.mechanism)
        everything = np.ones(N, dtype=bool)
        # A checkpoint of the training holds λ in its state.
        sparsity = 0.0 if run.resumed(SAVED) is not None else settings._choose(problem, run)
        algorithm = _algorithm(problem, settings, run.mechanism, everything, sparsity)
        epochs = self.epochs or self.passes(N, self.iterations)
        schedule = Schedule(epochs, self.chunk)
        outcome = run_steps(algorithm, schedule, run, "training", SHOWN)
        run.report("drawing graphs", 0, None)
        key = streams.key(run.seed, Stream.GUIDE_DRAWS)
        rounds, none = -(-self.draws // self.chains), _first_rows(problem, ~everything)
        drawn = bayesdag.draw_graphs(algorithm, outcome.state, key, rounds, none)
        graphs = np.asarray(drawn.graphs)
        details = _details(outcome, algorithm, graphs, int(drawn.left_out))
        m = problem.data.m
        return MethodResult(
            DrawnGraphs.equal(graphs.reshape(-1, m, m)[: self.draws]),
            None,
            run.mechanism,
            outcome.status,
            tuple(_judge(details)),
            details,
        )

    def resolve(self, mechanism: str) -> BayesDAG:
        """The settings with what depends on the mechanism filled in."""
        linear = mechanism == "linear"
        usual = {"choice_iterations": 800 if linear else 400, "thinning": 5 if linear else 1}
        return self.completed(usual)

    def _choose(self, problem: Problem, run: Run) -> float:
        """λ: as set, 0 if beliefs are stated, or the largest that predicts held-out rows well."""
        if not isinstance(self.sparsity, str):
            return float(self.sparsity)
        if states_beliefs(problem.prior) or problem.data.n_rows < 2:
            return 0.0
        saved = run.resumed(CHOOSING)
        found = [] if saved is None else [tuple(pair) for pair in np.asarray(saved, float)]
        rows = problem.data.n_rows
        train = training_rows(rows, round(self.held_out * rows), run.seed)
        tried = sorted(self.sparsities)
        for sparsity in tried[len(found) :]:
            found.append(self._held_out_likelihood(problem, run, train, sparsity))
            kept = np.array(found)
            run.checkpoint.keep(CHOOSING, lambda kept=kept: kept)
        return float(tried[sparsest(np.array(found))])

    def _held_out_likelihood(
        self, problem: Problem, run: Run, train: Bool[np.ndarray, " N"], sparsity: float
    ) -> tuple[float, float]:
        """The mean log likelihood of a held-out row after a short run, and its standard error."""
        from svidag.run import loop
        from svidag.variational.bayesdag import draw_graphs

        assert self.choice_iterations is not None, "resolved before λ is chosen"
        algorithm = _algorithm(problem, self, run.mechanism, train, sparsity)
        epochs = self.passes(len(train), self.choice_iterations)

        def report(done: int, trace: loop.Trace) -> None:
            run.report(f"trying λ = {sparsity:g}", done, epochs, latest(trace, SHOWN))

        outcome = loop.run(
            algorithm,
            loop.Keys.of_seed(run.seed),
            loop.Schedule(epochs, self.chunk),
            report=report,
            expired=run.deadline.passed,
        )
        key = streams.key(run.seed, Stream.SPARSITY_DRAWS)
        other = _first_rows(problem, ~train)
        drawn = draw_graphs(algorithm, outcome.state, key, CHOICE_DRAWS, other)
        each = np.asarray(drawn.predicted, float)[np.asarray(other.weights) > 0]
        return float(each.mean()), float(each.std() / len(each) ** 0.5)


def sparsest(found: Float[np.ndarray, "k 2"]) -> int:
    """The last of some likelihoods, with errors, that is within one error of the highest.

    Examples
    --------
    >>> sparsest(np.array([[-31.6, 0.25], [-31.8, 0.25], [-33.0, 0.25]]))
    1
    """
    best = int(np.argmax(found[:, 0]))
    near = found[:, 0] >= found[best, 0] - found[best, 1]
    return int(np.flatnonzero(near)[-1])


def _algorithm(
    problem: Problem,
    settings: BayesDAG,
    mechanism: str,
    chosen: Bool[np.ndarray, " N"],
    sparsity: float,
) -> bayesdag.BayesDAG:
    """The algorithm on the chosen rows."""
    import jax

    from svidag.orders.softsort import precedence
    from svidag.variational.bayesdag import GAP, BayesDAG

    p = edge_probability(problem.prior, 0.5).astype(np.float32)
    above = precedence(problem.prior.required, GAP)
    above, p, cost = jax.device_put((above, p, np.float32(sparsity)))
    table, prior = _rows(problem, chosen), problem.prior.to_jax()
    return BayesDAG(table, prior, above, p, cost, mechanism, settings)


def _rows(problem: Problem, chosen: Bool[np.ndarray, " N"]) -> bayesdag.Rows:
    """All rows, of which only the chosen ones count."""
    import jax

    from svidag.variational.bayesdag import Rows

    values, seen = problem.data.values.astype(np.float32), ~problem.data.intervened
    return Rows(*jax.device_put((values, seen, chosen.astype(np.float32))))


def _first_rows(problem: Problem, chosen: Bool[np.ndarray, " N"]) -> bayesdag.Rows:
    """The first of the chosen rows; others fill up, so that shapes do not depend on them."""
    import jax

    rows = _rows(problem, chosen)
    first = np.argsort(~chosen, kind="stable")[:MOST_HELD_OUT]
    return jax.tree.map(lambda x: x[first], rows)


def _details(
    outcome: Outcome[bayesdag.BayesDAGState],
    algorithm: bayesdag.BayesDAG,
    graphs: UInt8[np.ndarray, "S C m m"],
    left_out_draws: int,
) -> BayesDAGDiagnostics:
    rows, chains = len(algorithm.table.values), graphs.shape[1]
    first, second = graphs[:, : chains // 2], graphs[:, chains // 2 :]
    apart = np.abs(first.mean(axis=(0, 1)) - second.mean(axis=(0, 1))) if chains > 1 else np.nan
    return BayesDAGDiagnostics(
        **GradientDiagnostics.of(outcome),
        gradient_steps=outcome.steps * -(-rows // min(algorithm.settings.batch, rows)),
        left_out=int(outcome.trace["left_out"].sum()),
        left_out_draws=left_out_draws,
        sparsity=float(outcome.state.sparsity),
        edges=float(graphs.sum(axis=(2, 3)).mean()),
        disagreement=float(np.max(apart)),
    )


def _judge(found: BayesDAGDiagnostics) -> Iterator[Reason]:
    yield approximate("An approximation by tempered chains and variational edges (BayesDAG)")
    yield from judge_rejected(found)
    left_out = found.left_out + found.left_out_draws
    if left_out:
        text = f"{left_out} minibatches had a step that was not finite and was left out."
        yield Reason(Level.CAREFUL, text)
    if found.gradient_steps < FEW_STEPS:
        yield Reason(
            Level.NOT,
            f"{found.gradient_steps} minibatches are too few: orders and edges are near where they "
            "started. Take more `iterations`.",
        )
    if found.disagreement > DISAGREEMENT:
        yield Reason(
            Level.CAREFUL,
            "Chains found different orders: between two halves of them, the probability of an "
            f"arrow differs by up to {found.disagreement:.2f}.",
        )
    else:
        yield Reason(Level.TRUST, "Two halves of the chains agree about every arrow.")
