"""`order-mcmc`, the default: mechanisms integrated out, Markov chains over orders.

Small problems are summed over all orders, exactly. Elsewhere searches collect the parent sets that
matter, chains move over orders with every parent set summed out, and a fresh search looks for what
was missed (:mod:`svidag.methods.order_sampling`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from svidag.exact.orders import ExactOrders, parent_weights
from svidag.mechanisms.collapsed import parameter_distribution
from svidag.mechanisms.environments import EnvironmentScores
from svidag.mechanisms.flexible import FlexibleMechanism
from svidag.mechanisms.flexible_screen import ScreenedFlexible
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.wide import WideNetwork
from svidag.methods.base import Method, MethodResult, Run, Support
from svidag.methods.changes import mechanism_changes
from svidag.methods.mechanism_choice import Integrated, integrate
from svidag.methods.order_sampling import ChainSettings, SearchSettings, sample_orders
from svidag.posterior.diagnostics import Level, Reason
from svidag.problem import Problem
from svidag.run.settings import setting
from svidag.run.status import Status

MOST_LINEAR = 18
"""Variables up to which linear problems are summed: three seconds."""

MOST_NETWORK = 25_000_000
"""Parent sets times rows up to which networks are: half a minute."""

MOST_SUMMED = 8
"""Variables up to which flexible mechanisms are; beyond, searches fit fewer families."""

MOST_FLEXIBLE, MOST_CELLS = 30, 60_000
"""Variables, and rows times variables, up to which ``"auto"`` considers flexible mechanisms."""

EXACT = Reason(
    Level.TRUST,
    "Computed exactly: every graph and every order is accounted for, nothing is sampled.",
)

SCREENED = Reason(
    Level.TRUST,
    "Every order is accounted for, nothing is sampled; possible parents that explain nothing in "
    "two simpler regressions were weighed by those regressions alone.",
)


@dataclass(frozen=True)
class OrderMCMC(ChainSettings, SearchSettings, Method):
    """Exact conditionals given an order, Metropolis moves over orders; small problems exactly.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> method = svidag.methods.OrderMCMC(chains=2)
    >>> svidag.fit(example.data, method=method, progress=False).diagnostics.status
    <Status.EXACT: 'exact'>
    """

    name: ClassVar[str] = "order-mcmc"
    summary: ClassVar[str] = (
        "Mechanisms integrated out, Markov chains over orders; small problems are summed exactly."
    )
    support: ClassVar[Support] = Support(
        mechanisms=("auto", "linear", "nonlinear", "flexible"), coarsening=True, environments=True
    )
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType({"exact": False, "orders": 200})

    exact: bool = setting(True, "Sum small problems over all orders instead of sampling.")
    units: int = setting(
        200, "Hidden units of a nonlinear mechanism; a flexible one has at most 64.", least=0
    )
    sketch_units: int = setting(
        32, "Hidden units of the smaller network that scores parent sets first.", least=0
    )

    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Choose the mechanism, then sum over all orders or sample them."""
        mechanism = integrate(
            problem,
            run.mechanism,
            units=self.units,
            sketch_units=self.sketch_units,
            seed=run.seed,
            notes=run.checkpoint.notes,
            coarsen=run.coarsen,
            other="flexible" if _affordable(problem) else "nonlinear",
        )
        if self.exact and feasible(mechanism.scores):
            return _sum_orders(problem, run, mechanism)
        found = sample_orders(problem, run, mechanism, self, self)
        return MethodResult(
            found.graphs,
            parameter_distribution(mechanism.scores, problem.scaling),
            mechanism.name,
            found.status,
            found.reasons,
            found.details,
            mechanism.margin,
            changes=mechanism_changes(mechanism.scores, found.graphs, run.seed),
        )


def _affordable(problem: Problem) -> bool:
    """Whether the table is small enough for flexible mechanisms, which fit each set by itself."""
    rows, m = problem.data.values.shape
    return m <= MOST_FLEXIBLE and rows * m <= MOST_CELLS


def feasible(
    model: LinearGaussian | WideNetwork | FlexibleMechanism | ScreenedFlexible | EnvironmentScores,
) -> bool:
    """Whether the sum over all orders takes little time."""
    if isinstance(model, EnvironmentScores):
        if isinstance(model.base, LinearGaussian):
            return model.m + np.log2(len(model.shares)) <= MOST_LINEAR
        if isinstance(model.base, WideNetwork):
            return 2 * model.base.columns.shape[1] * 2.0**model.m <= MOST_NETWORK
        return model.m < MOST_SUMMED
    if isinstance(model, LinearGaussian):
        return model.m <= MOST_LINEAR
    if isinstance(model, FlexibleMechanism | ScreenedFlexible):
        return model.m <= MOST_SUMMED
    return model.columns.shape[1] * 2.0**model.m <= MOST_NETWORK


def _sum_orders(problem: Problem, run: Run, mechanism: Integrated) -> MethodResult:
    run.report("scoring all parent sets", 0, None)
    weights = parent_weights(mechanism.scores.score_tables(), problem.prior)
    graphs = ExactOrders.build(weights, problem.prior.required)
    return MethodResult(
        graphs,
        parameter_distribution(mechanism.scores, problem.scaling),
        mechanism.name,
        Status.EXACT,
        (SCREENED if mechanism.screened else EXACT,),
        mechanism_margin=mechanism.margin,
        log_evidence=graphs.log_evidence,
        changes=mechanism_changes(mechanism.scores, graphs, run.seed),
    )
