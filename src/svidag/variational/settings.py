"""The settings of structured variational inference, as published and with a guide for each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from svidag.orders.permutation import power_ladder
from svidag.run.convergence import Agreement
from svidag.run.settings import Settings, setting
from svidag.samplers.relocation import MOVES

if TYPE_CHECKING:
    from svidag.orders.relaxation import Sinkhorn

FLOWS = (
    "spline-coupling",
    "affine-coupling",
    "masked-autoregressive",
    "spline-autoregressive",
)
"""The families of `svidag.networks.flows`, by name."""


@dataclass(frozen=True)
class PublishedSettings(Settings):
    """What the paper's table fixes, and the author's choices where the table is silent."""

    iterations: int = setting(2500, "Steps, T_itr.", least=1)
    particles: int = setting(20, "Particles over orders, K_part.", least=1)
    batch: int = setting(64, "Rows of a minibatch, |D_b|.", least=1)
    draws: int = setting(1, "Draws of edges and weights for each particle, S_MC.", least=1)
    edges: str = setting(
        "spline-coupling",
        "Guide over edges: a flow, Gaussian logits that ignore the order, or edges themselves.",
        choices=(*FLOWS, "mean-field", "bernoulli"),
    )
    orders: str = setting(
        "stein", "Stein particles, or a Gaussian over potentials.", choices=("stein", "gaussian")
    )
    blocks: int = setting(5, "Blocks of the flow.", least=1)
    bins: int = setting(8, "Bins of its splines.", least=1)
    boundary: float = setting(5.0, "Splines act on [−boundary, boundary].", above=0)
    width: int = setting(64, "Hidden width of the flow's networks.", least=1)
    hidden: tuple[int, ...] = setting((32, 32), "Hidden layers of the mechanisms.", least=1)
    hyper: tuple[int, ...] = setting((16, 16), "Hidden layers of the hypernetworks.", least=1)
    condition: str = setting(
        "column",
        "What a hypernetwork sees: the parents of its node, or the whole graph.",
        choices=("column", "graph"),
    )
    edge_gradient: str = setting(
        "straight-through",
        "Slope of an edge: of the bound at the hard graph, or its change by the edge.",
        choices=("straight-through", "difference"),
    )
    temperature: float = setting(0.3, "Temperature T of the relaxed edges.", above=0)
    tau: float = setting(0.1, "Temperature τ of the relaxed order at the end.", above=0)
    tau_initial: float = setting(20.0, "The same at the start; it falls linearly.", above=0)
    sinkhorn_iterations: int | None = setting(
        None, "Sinkhorn sweeps K_S; None takes the limit of infinitely many.", least=1
    )
    scale_invariant: bool = setting(
        False, "Divide potentials by their root mean square before they are relaxed."
    )
    potential_scale: float = setting(1.0, "Prior scale σ_r of the potentials.", above=0)
    learning_rate: float = setting(3e-3, "Adam's learning rate.", above=0)
    gradient_clip: float = setting(1.0, "Largest norm of Adam's gradient.", above=0)
    particle_rate: float = setting(0.1, "Step size η_r of the particles.", above=0)
    particle_clip: float = setting(10.0, "Largest norm of a particle's score.", above=0)
    optimiser: Any = setting(None, "An optax transformation in place of Adam.")
    particle_optimiser: Any = setting(None, "An optax transformation for the particles.")
    patience: int | None = setting(
        None, "Stop when the bound has not risen over so many steps; None never.", least=2
    )
    chunk: int = setting(50, "Steps between two reports of progress.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.edge_gradient == "difference" and self.condition != "column":
            raise ValueError(
                "edge_gradient='difference' needs condition='column', so that an edge changes one "
                f"node only; got condition={self.condition!r}"
            )

    @property
    def sinkhorn(self) -> Sinkhorn:
        """The relaxation's solver: the limit, or K_S sweeps as published with their derivative."""
        from svidag.orders.relaxation import Sinkhorn

        if self.sinkhorn_iterations is None:
            return Sinkhorn(scale_invariant=self.scale_invariant)
        return Sinkhorn(
            sweeps=self.sinkhorn_iterations,
            newton=0,
            start="flat",
            gradient="unrolled",
            scale_invariant=self.scale_invariant,
        )


@dataclass(frozen=True)
class NodeGuideSettings(Settings):
    """How a guide for each node is trained, and how chains over orders use it."""

    guide: str = setting(
        "flow",
        "Guide over the parents of a node: a flow, or independent edges.",
        choices=("flow", "mean-field"),
    )
    bound: str = setting(
        "tight",
        "What the guide maximises: the tight bound, or for a flow the published one.",
        choices=("tight", "published"),
    )
    edge_gradient: str = setting(
        "local-expectation",
        "Slope of an edge: its exact change with the others as drawn, or straight through.",
        choices=("local-expectation", "straight-through"),
    )
    moves: str = setting(
        "relocation", "Whether a node moves to any place, to the next, or not.", choices=MOVES
    )
    correction: str = setting(
        "pseudo-marginal",
        "Correct orders by unbiased estimates of their evidence, or draw from the guide as it is.",
        choices=("pseudo-marginal", "none"),
    )
    blocks: int = setting(2, "Blocks of each flow.", least=1)
    bins: int = setting(8, "Bins of its splines.", least=1)
    boundary: float = setting(5.0, "Splines act on [−boundary, boundary].", above=0)
    width: int = setting(32, "Hidden width of the flow's networks.", least=1)
    depth: int = setting(1, "Hidden layers of the flow's networks.", least=1)
    chains: int = setting(4, "Independent chains.", least=1)
    levels: int | None = setting(
        None, "Tempered replicas of each chain; by default from rows and variables.", least=1
    )
    flattest: float | None = setting(
        None, "Power of the target at the first replica; by default from rows.", above=0, most=1
    )
    steps: int = setting(300, "Steps of Adam on the guides.", least=1)
    rate: float = setting(0.03, "Adam's learning rate, which falls to a tenth.", above=0)
    training_orders: int = setting(8, "Orders in each step.", least=1)
    training_draws: int = setting(4, "Draws from the guide for each of their nodes.", least=1)
    burn_in_sweeps: int = setting(10, "Sweeps of all replicas after each step.", least=0)
    sweeps: int = setting(40, "Sweeps between two estimates.", least=1)
    reach: float = setting(7.0, "Keep parent sets whose share could be above exp(−reach).", above=0)
    capacity: int = setting(2000, "Parent sets kept for a node at most.", least=1)
    rounds: int = setting(200, "Estimated moves after training at most.", least=1)
    draws: int = setting(8, "Parent sets drawn for each estimate.", least=1)
    check_every: int = setting(20, "Rounds between two checks of agreement.", least=1)
    thin: int = setting(2, "Rounds from one kept graph to the next.", least=1)
    agreement: float = setting(
        Agreement.tolerance,
        "Chains may end when halves of them differ by less than this on every arrow.",
        least=0,
        most=1,
    )
    effective_orders: float = setting(
        Agreement.effective,
        "Chains may end when their orders are worth this many independent ones.",
        least=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < self.thin:
            raise ValueError(
                f"rounds must be at least thin = {self.thin}, or no graph is kept; "
                f"got {self.rounds}"
            )
        if self.check_every % self.thin:
            raise ValueError(
                f"check_every must be a multiple of thin = {self.thin}; got {self.check_every}"
            )
        if self.bound == "published" and self.guide == "mean-field":
            raise ValueError(
                "bound='published' needs guide='flow': without a flow, the paper's bound is the "
                "tight one"
            )

    @property
    def enough(self) -> Agreement:
        """When chains may end before their budget does."""
        return Agreement(float(self.agreement), float(self.effective_orders))

    @property
    def powers(self) -> Float[np.ndarray, " levels"]:
        """The power of the target at each level, once levels and flattest are known."""
        if self.levels is None or self.flattest is None:
            raise ValueError("levels and flattest must be resolved before powers are asked for")
        return power_ladder(self.levels, self.flattest)
