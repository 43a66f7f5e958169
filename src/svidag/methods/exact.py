"""`exact`: the posterior by dynamic programming over subsets, for small problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from svidag.data import Kind
from svidag.exact.graphs import exact_graphs, require_feasible
from svidag.methods.base import Method, MethodResult, Run, Support
from svidag.methods.changes import mechanism_changes
from svidag.methods.mechanism_choice import IntegratedMechanism, integrate
from svidag.posterior.diagnostics import Level, Reason
from svidag.problem import Problem
from svidag.run.settings import setting
from svidag.run.status import Status

ACCOUNTED = Reason(
    Level.TRUST,
    "Computed exactly: every graph and every order is accounted for, nothing is sampled.",
)

SCREENED = Reason(
    Level.TRUST,
    "Every order is accounted for, nothing is sampled; possible parents that explain nothing in "
    "simpler regressions were weighed by those regressions alone.",
)


@dataclass(frozen=True)
class Exact(Method):
    """All orders, or all graphs, summed by dynamic programming: at most 20 variables.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> svidag.fit(example.data, method="exact", progress=False).log_evidence < 0
    True
    """

    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = "Every graph accounted for, by dynamic programming; few variables."
    support: ClassVar[Support] = Support(
        mechanisms=("linear", "nonlinear", "flexible", "discrete", "mixed"),
        structure_weights=True,
        coarsening=True,
        kinds=tuple(Kind),
        environments=True,
    )

    units: int = setting(200, "Hidden units of a nonlinear mechanism.", least=0)

    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Score every parent set of every variable and sum."""
        require_feasible(problem.data.m, run.mechanism)
        mechanism = integrate(
            problem,
            run.mechanism,
            units=self.units,
            sketch_units=self.units,
            seed=run.seed,
            notes={},
            coarsen=run.coarsen,
            screened=False,
        )
        return sum_exactly(problem, run, mechanism)


def sum_exactly(problem: Problem, run: Run, mechanism: IntegratedMechanism) -> MethodResult:
    """The posterior of a mechanism, summed over all orders or all graphs."""
    run.report("scoring all parent sets", 0, None)
    tables = mechanism.scores.score_tables()
    graphs, log_evidence = exact_graphs(tables, problem.prior, run.graph_weights)
    return mechanism.result(
        problem,
        graphs,
        Status.EXACT,
        (SCREENED if mechanism.screened else ACCOUNTED,),
        log_evidence=log_evidence,
        changes=mechanism_changes(mechanism.scores, graphs, run.seed),
    )
