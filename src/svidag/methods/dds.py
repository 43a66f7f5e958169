"""`dds`: differentiable sampling of DAGs, orders and edges apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from svidag.methods.base import Method, MethodResult, Run, Support
from svidag.methods.edge_beliefs import edge_probability
from svidag.methods.gradient_diagnostics import GradientDiagnostics, approximate, judge_rejected
from svidag.methods.gradient_runs import run_steps
from svidag.posterior.diagnostics import Level, Reason, diagnostic
from svidag.problem import Problem
from svidag.run.streams import Stream, generator
from svidag.variational.dds_settings import DDSSettings

if TYPE_CHECKING:
    from svidag.run.loop import Outcome
    from svidag.variational.dds import DAGSampling, DDSState

SHOWN = {"loss": "loss", "held_out": "held-out error", "edges": "edges"}
"""Diagnostics of an epoch that progress shows, and what it calls them."""

FEW_STEPS = 500
"""Steps of Adam from which logits that start near 1/2 can have come below −4."""


@dataclass(frozen=True, eq=False)
class DDSDiagnostics(GradientDiagnostics):
    """What DDS reports; a step is an epoch."""

    gradient_steps: int = diagnostic("Minibatches")
    left_out: int = diagnostic("Minibatches left out because they were not finite")
    best_epoch: int = diagnostic("Epoch with the lowest held-out error")
    held_out_error: float = diagnostic("Lowest held-out error (mean square)")
    training_rows: int = diagnostic("Rows that networks were trained on")


@dataclass(frozen=True)
class DDS(DDSSettings, Method):
    """Orders by sorted Gumbel scores, independent edges, a network for each variable.

    Examples
    --------
    >>> import svidag
    >>> svidag.methods.DDS(epochs=50).batch
    64
    """

    name: ClassVar[str] = "dds"
    summary: ClassVar[str] = "DDS (VI-DP-DAG): differentiable sampling of orders and edges."
    support: ClassVar[Support] = Support(mechanisms=("mlp",))
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"batch": 32, "epochs": 60, "graph_rate": 0.03, "hidden": (8,), "divergence_weight": 0.02}
    )

    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Train until the held-out error stops falling, and take orders and edges as they are."""
        from svidag.run import loop
        from svidag.variational.dds_posterior import SortedGraphs

        algorithm = _algorithm(problem, self, run.seed)

        schedule = loop.Schedule(
            self.epochs, self.check_every, stop=self.stop, grid=self.check_every
        )
        outcome = run_steps(algorithm, schedule, run, "training", SHOWN)
        found = int(outcome.state.best_epoch) > 0 and self.keep == "best"
        graph = outcome.state.best if found else outcome.state.graph
        details = _details(outcome, algorithm)
        return MethodResult(
            SortedGraphs(graph.psi, graph.logits, algorithm.above, algorithm.prior),
            None,
            "mlp",
            outcome.status,
            tuple(_judge(details)),
            details,
        )

    def stop(self, trace: Mapping[str, np.ndarray]) -> bool:
        """Whether the last looks at held-out rows brought nothing that was better.

        Examples
        --------
        >>> method = DDS(patience=2, check_every=1)
        >>> rising, falling = np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])
        >>> method.stop({"held_out": rising}), method.stop({"held_out": falling})
        (True, False)
        """
        errors = trace["held_out"][self.check_every - 1 :: self.check_every]
        last = errors[-self.patience :]
        return len(errors) > self.patience and bool(last[0] <= last.min())


def _algorithm(problem: Problem, settings: DDS, seed: int) -> DAGSampling:
    import jax

    from svidag.orders.softsort import precedence
    from svidag.variational.dds import GAP, DAGSampling

    data = problem.data
    order = generator(seed, Stream.HELD_OUT_ROWS).permutation(data.n_rows)
    held = max(1, round(settings.validation * data.n_rows))
    values, seen = data.values.astype(np.float32), ~data.intervened
    train, rest = order[held:], order[:held]
    p = edge_probability(problem.prior, settings.edge_probability).astype(np.float32)
    above = precedence(problem.prior.required, GAP)
    rows, held_rows, above, p = jax.device_put(
        ((values[train], seen[train]), (values[rest], seen[rest]), above, p)
    )
    prior = problem.prior.to_jax()
    return DAGSampling(rows[0], rows[1], held_rows[0], held_rows[1], prior, above, p, settings)


def _details(outcome: Outcome[DDSState], algorithm: DAGSampling) -> DDSDiagnostics:
    rows = len(algorithm.values)
    size = min(algorithm.settings.batch, rows)
    return DDSDiagnostics(
        **GradientDiagnostics.of(outcome),
        gradient_steps=outcome.steps * -(-rows // size),
        left_out=int(outcome.trace["left_out"].sum()),
        best_epoch=int(outcome.state.best_epoch),
        held_out_error=float(outcome.state.best_error),
        training_rows=rows,
    )


def _judge(found: DDSDiagnostics) -> Iterator[Reason]:
    what = "A variational approximation (DDS) whose spread does not follow from the number of rows"
    yield approximate(what)
    yield from judge_rejected(found)
    if found.left_out:
        text = f"{found.left_out} of {found.gradient_steps} minibatches were not finite."
        yield Reason(Level.CAREFUL, text)
    if found.gradient_steps < FEW_STEPS:
        yield Reason(
            Level.NOT,
            f"{found.gradient_steps} minibatches are too few to take edges away: graphs are dense "
            "because training starts with dense ones. Take more epochs, or smaller minibatches.",
        )
    else:
        text = f"Training took {found.gradient_steps} minibatches, enough for edges to vanish."
        yield Reason(Level.TRUST, text)
