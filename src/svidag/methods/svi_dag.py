"""`svi-dag`: structured variational inference with five switches; and the corner of the paper.

The five are the mechanism, `bound`, `edge_gradient`, `orders` and `correction`. Chains of moves
over orders have a guide for each node (:mod:`svidag.methods.svi_dag_chains`), particles and a
Gaussian over potentials follow Algorithm 1 (:mod:`svidag.methods.svi_dag_particles`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from svidag.methods.base import Method, MethodResult, Run, Support
from svidag.methods.mechanism_choice import integrate
from svidag.methods.svi_dag_chains import fit_chains
from svidag.methods.svi_dag_particles import fit_particles
from svidag.problem import Problem
from svidag.variational.settings import VariationalSettings, restated

SKETCH_UNITS = 32
"""Hidden units of the networks by which ``mechanism="auto"`` is decided, at most."""


@dataclass(frozen=True)
class SVIDAG(VariationalSettings, Method):
    """A guide over edges, trained on a tight bound by exact changes; orders by corrected moves.

    Examples
    --------
    >>> import svidag
    >>> svidag.methods.SVIDAG(guide="flow").bound
    'tight'
    """

    name: ClassVar[str] = "svi-dag"
    summary: ClassVar[str] = (
        "Structured variational inference with a guide for each node and corrected order moves."
    )
    support: ClassVar[Support] = Support(mechanisms=("auto", "linear", "nonlinear", "mlp"))
    trial: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"iterations": 60, "covering": 60, "rounds": 60}
    )

    def check_mechanism(self, mechanism: str) -> None:
        """Refuse networks with chains, which need the evidence of parent sets."""
        if mechanism == "mlp" and self.orders == "moves":
            raise ValueError(
                "orders='moves' needs a mechanism whose parameters are integrated out ('linear', "
                "'nonlinear'); mechanism='mlp' needs orders='stein' or 'gaussian'"
            )

    def run(self, problem: Problem, run: Run) -> MethodResult:
        """Integrate the mechanism out unless it is a network, and fit by chains or by particles."""
        if run.mechanism == "mlp":
            return fit_particles(self, problem, run, None)
        mechanism = integrate(
            problem,
            run.mechanism,
            units=self.units,
            sketch_units=min(SKETCH_UNITS, self.units),
            seed=run.seed,
            notes=run.checkpoint.notes,
        )
        if self.orders == "moves":
            return fit_chains(self, problem, run, mechanism)
        return fit_particles(self, problem, run, mechanism)

    def identity(self) -> dict[str, Any]:
        """The settings as far as they can be compared from one run to the next.

        Functions have no lasting name, so of an optimiser of one's own only its presence is known;
        a checkpoint is refused where the shapes of its state differ.
        """
        values = super().identity()
        for name in ("optimiser", "particle_optimiser"):
            values[name] = None if values[name] is None else "given"
        return values


@dataclass(frozen=True)
class PublishedSVIDAG(SVIDAG):
    """The settings of `SVIDAG` with the defaults of the paper: Algorithm 1 as published.

    Examples
    --------
    >>> import svidag
    >>> published = svidag.methods.PublishedSVIDAG(iterations=500)
    >>> published.orders, published.bound, published.edge_gradient, published.particles
    ('stein', 'published', 'straight-through', 20)
    """

    name: ClassVar[str] = "svi-dag-published"
    summary: ClassVar[str] = "Structured variational inference, Algorithm 1 of the paper."
    support: ClassVar[Support] = Support(mechanisms=("mlp", "linear", "nonlinear"))
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

    guide: str = restated(VariationalSettings, "guide", "flow")
    bound: str = restated(VariationalSettings, "bound", "published")
    edge_gradient: str = restated(VariationalSettings, "edge_gradient", "straight-through")
    orders: str = restated(VariationalSettings, "orders", "stein")
    correction: str = restated(VariationalSettings, "correction", "none")
    iterations: int = restated(VariationalSettings, "iterations", 2500)
    learning_rate: float = restated(VariationalSettings, "learning_rate", 3e-3)
    particles: int = restated(VariationalSettings, "particles", 20)
    draws: int = restated(VariationalSettings, "draws", 1)
    blocks: int = restated(VariationalSettings, "blocks", 5)
    width: int = restated(VariationalSettings, "width", 64)
    depth: int = restated(VariationalSettings, "depth", 2)
    particle_rate: float = restated(VariationalSettings, "particle_rate", 0.1)
    hidden: tuple[int, ...] = restated(VariationalSettings, "hidden", (32, 32))
    absent_weights: str = restated(VariationalSettings, "absent_weights", "learned")
