"""`order-mcmc`, the default: mechanisms integrated out, Markov chains over orders.

Small problems are summed over all orders, exactly. Elsewhere searches collect the parent sets that
matter, chains move over orders with every parent set summed out, and a fresh search checks what was
missed (:mod:`svidag.methods.order_sampling`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from svidag.data import Kind
from svidag.mechanisms.discrete import DiscreteTables
from svidag.mechanisms.environments import EnvironmentScores
from svidag.mechanisms.integrated import IntegratedScores
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.mixed_screen import ScreenedMixed
from svidag.mechanisms.wide import WideNetwork
from svidag.methods.base import Method, MethodResult, Run, Support
from svidag.methods.changes import mechanism_changes
from svidag.methods.exact import sum_exactly
from svidag.methods.mechanism_choice import integrate
from svidag.methods.order_sampling import SamplingSettings, sample_orders
from svidag.problem import Problem
from svidag.run.settings import setting

MAX_EXACT_LINEAR = 18
"""Variables up to which linear problems are summed over all orders: three seconds."""

MAX_EXACT_NETWORK_WORK = 25_000_000
"""Parent sets times rows up to which problems of networks are: half a minute."""

MAX_EXACT_FLEXIBLE = 8
"""Variables up to which flexible and mixed mechanisms are; a search fits fewer families."""

MAX_EXACT_REGRESSIONS, MAX_EXACT_REGRESSION_ROWS = 5000, 2.5e7
"""Parent sets of all discrete variables up to which larger mixed problems are, and these times
rows: half a minute (nine columns, eight of them codes, 6366 rows: 12 s; with 500 rows: 4 s)."""

MAX_EXACT_COUNTS = 2.5e8
"""Rows times parent sets of all variables up to which discrete problems are: ten seconds."""

MAX_FLEXIBLE_VARIABLES, MAX_FLEXIBLE_CELLS = 30, 60_000
"""Variables, and rows times variables, up to which ``"auto"`` considers flexible mechanisms."""

IN_A_MIXTURE = MappingProxyType({"chains": 2, "orders": 100, "rounds": 5, "fresh_searches": 1})
"""Settings of one fit among the 16 of a mixture, which save time: errors of single fits average
out."""


@dataclass(frozen=True)
class OrderMCMC(SamplingSettings, Method):
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
        mechanisms=("auto", "linear", "nonlinear", "flexible", "discrete", "mixed"),
        coarsening=True,
        kinds=tuple(Kind),
        environments=True,
    )
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType({"exact": False, "orders": 200})

    exact: bool = setting(True, "Sum small problems over all orders instead of sampling.")
    units: int = setting(
        200, "Hidden units of a nonlinear mechanism; a flexible one has at most 64.", least=0
    )
    sketch_units: int = setting(
        32, "Hidden units of the smaller network that scores parent sets first.", least=0
    )

    def for_mixture(self) -> OrderMCMC:
        """Fewer orders and rounds of search, except where they were set."""
        usual = type(self)()
        fewer = {k: v for k, v in IN_A_MIXTURE.items() if getattr(self, k) == getattr(usual, k)}
        return dataclasses.replace(self, **fewer)

    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Choose the mechanism, then sum over all orders or sample them."""
        if run.mechanism == "auto":
            run.report("choosing the mechanism", 0, None)
        mechanism = integrate(
            problem,
            run.mechanism,
            units=self.units,
            sketch_units=self.sketch_units,
            seed=run.seed,
            notes=run.checkpoint.notes,
            coarsen=run.coarsen,
            with_flexible=_flexible_is_affordable(problem),
        )
        if run.mechanism == "auto":  # with many rows the choice takes minutes
            run.checkpoint.keep("mechanism", dict)
        if self.exact and can_be_summed(mechanism.scores):
            return sum_exactly(problem, run, mechanism)
        found = sample_orders(problem, run, mechanism, self)
        return mechanism.result(
            problem,
            found.graphs,
            found.status,
            found.reasons,
            found.details,
            changes=mechanism_changes(mechanism.scores, found.graphs, run.seed),
        )


def _flexible_is_affordable(problem: Problem) -> bool:
    """Whether the table is small enough for flexible mechanisms, which fit each set by itself."""
    rows, m = problem.data.values.shape
    return m <= MAX_FLEXIBLE_VARIABLES and rows * m <= MAX_FLEXIBLE_CELLS


def can_be_summed(model: IntegratedScores) -> bool:
    """Whether a problem is small enough to be summed over all orders."""
    environments = len(model.shares) if isinstance(model, EnvironmentScores) else 0
    base = model.base if isinstance(model, EnvironmentScores) else model
    if isinstance(base, LinearGaussian):
        return bool(model.m + np.log2(max(environments, 1)) <= MAX_EXACT_LINEAR)
    if isinstance(base, WideNetwork):
        networks = 2 if environments else 1
        return networks * base.columns.shape[1] * 2.0**model.m <= MAX_EXACT_NETWORK_WORK
    if isinstance(base, DiscreteTables):
        sets = 2.0 ** (model.m if environments else model.m - 1)
        return base.codes.size * sets <= MAX_EXACT_COUNTS
    m = model.m + bool(environments)
    if isinstance(base, ScreenedMixed):
        regressions = base.mechanism.data.discrete.sum() * 2.0 ** (m - 1)
        rows = regressions * base.mechanism.data.n_rows
        few = regressions <= MAX_EXACT_REGRESSIONS and rows <= MAX_EXACT_REGRESSION_ROWS
        return m <= MAX_EXACT_FLEXIBLE or bool(regressions > 0 and few)
    return m <= MAX_EXACT_FLEXIBLE
