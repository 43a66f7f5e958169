"""The settings of structured variational inference: five switches, and what each route needs.

The switches are the mechanism (an argument of `svidag.fit`), `bound`, `edge_gradient`, `orders` and
`correction`. `svi-dag-published` is the corner that the paper describes, `svi-dag` the one that
works.
"""

from __future__ import annotations

import dataclasses
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

FLOWS = {
    "flow": "spline-coupling",
    "affine-coupling": "affine-coupling",
    "masked-autoregressive": "masked-autoregressive",
    "spline-autoregressive": "spline-autoregressive",
}
"""The families of `svidag.networks.flows` by the guide that has them."""


ESTIMATED = 12_000
"""Nodes that each chain estimates by default at most: its rounds times the number of variables.
Ten sweeps make orders nearly independent, so that the error left is that of their number."""


@dataclass(frozen=True)
class VariationalSettings(Settings):
    """How a guide over edges is trained, and how orders move."""

    guide: str = setting(
        "mean-field",
        "Guide over edges given the order: a flow over their logits, or independent edges.",
        choices=(*FLOWS, "mean-field"),
    )
    bound: str = setting(
        "tight",
        "What the guide maximises: with logits in the guide alone, or in the model too.",
        choices=("tight", "published"),
    )
    edge_gradient: str = setting(
        "difference",
        "Slope of an edge: its change of the bound, or of the bound at the hard graph.",
        choices=("difference", "straight-through"),
    )
    orders: str = setting(
        "moves",
        "Chains of Metropolis moves, Stein particles, or a Gaussian over potentials.",
        choices=("moves", "stein", "gaussian"),
    )
    correction: str = setting(
        "pseudo-marginal",
        "Correct orders by unbiased estimates of their evidence, or draw from the guide as it is.",
        choices=("pseudo-marginal", "none"),
    )
    iterations: int = setting(300, "Steps of the optimiser, T_itr.", least=1)
    learning_rate: float = setting(
        0.03, "Adam's learning rate; with moves it falls to a tenth.", above=0
    )
    particles: int = setting(8, "Orders in each step, K_part.", least=1)
    draws: int = setting(4, "Draws from the guide for each of them, S_MC.", least=1)
    temperature: float = setting(0.3, "Temperature T of relaxed edges.", above=0)
    start: float | None = setting(None, "Logits at which edges start; None takes the prior's.")
    blocks: int = setting(2, "Blocks of a flow.", least=1)
    bins: int = setting(8, "Bins of its splines.", least=1)
    boundary: float = setting(5.0, "Splines act on [−boundary, boundary].", above=0)
    width: int = setting(32, "Hidden width of the flow's networks.", least=1)
    depth: int = setting(1, "Hidden layers of the flow's networks.", least=1)
    units: int = setting(200, "Hidden units of a nonlinear mechanism.", least=0)

    moves: str = setting(
        "relocation",
        "Chains: whether a node moves to any place, to the next, or not.",
        choices=MOVES,
    )
    chains: int = setting(4, "Chains: how many.", least=1)
    levels: int | None = setting(
        None, "Chains: tempered replicas of each; by default from rows and variables.", least=1
    )
    flattest: float | None = setting(
        None,
        "Chains: power of the target at the first replica; by default from rows.",
        above=0,
        most=1,
    )
    burn_in_sweeps: int = setting(
        10, "Chains: sweeps of all replicas after each step of the optimiser.", least=0
    )
    covering: int = setting(
        200,
        "Chains: steps after training in which the guide learns what was found, by its evidence.",
        least=0,
    )
    copies: int = setting(4, "Chains: as how many each goes on after training.", least=1)
    sweeps: int = setting(10, "Chains: sweeps between two estimates.", least=1)
    reach: float = setting(
        7.0, "Chains: keep parent sets whose share could be above exp(−reach).", above=0
    )
    capacity: int = setting(2000, "Chains: parent sets kept for a node at most.", least=1)
    rounds: int | None = setting(
        None,
        "Chains: estimated moves after training at most; by default 12 000 over the variables.",
        least=1,
    )
    estimate_draws: int = setting(8, "Chains: parent sets drawn for each estimate.", least=1)
    check_every: int = setting(20, "Chains: rounds between two checks of agreement.", least=1)
    thin: int = setting(2, "Chains: rounds from one kept graph to the next.", least=1)
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

    tau: float = setting(0.1, "Particles: temperature τ of the relaxed order at the end.", above=0)
    tau_initial: float = setting(
        20.0, "Particles: the same at the start; it falls linearly.", above=0
    )
    sinkhorn_iterations: int | None = setting(
        None, "Particles: Sinkhorn sweeps K_S; None takes the limit of infinitely many.", least=1
    )
    scale_invariant: bool = setting(
        False, "Particles: divide potentials by their root mean square before they are relaxed."
    )
    potential_scale: float = setting(1.0, "Particles: prior scale σ_r of the potentials.", above=0)
    gradient_clip: float = setting(1.0, "Particles: largest norm of Adam's gradient.", above=0)
    particle_rate: float = setting(0.01, "Particles: their step size η_r.", above=0)
    particle_clip: float = setting(10.0, "Particles: largest norm of a particle's score.", above=0)
    optimiser: Any = setting(None, "Particles: an optax transformation in place of Adam.")
    particle_optimiser: Any = setting(None, "Particles: an optax transformation for the particles.")
    patience: int | None = setting(
        None,
        "Particles: stop when the bound has not risen over so many steps; None never.",
        least=2,
    )
    chunk: int = setting(50, "Particles: steps between two reports of progress.", least=1)

    batch: int = setting(64, "`mlp`: rows of a minibatch, |D_b|.", least=1)
    hidden: tuple[int, ...] = setting(
        (16,), "`mlp`: hidden layers of the mechanisms; none is a linear layer.", least=1
    )
    skip: bool = setting(False, "`mlp`: add a linear layer from the parents to the node.")
    hyper: tuple[int, ...] = setting(
        (16, 16), "`mlp`: hidden layers of the hypernetworks.", least=1
    )
    condition: str = setting(
        "column",
        "`mlp`: what a hypernetwork sees: the parents of its node, or the whole graph.",
        choices=("column", "graph"),
    )
    absent_weights: str = setting(
        "prior",
        "`mlp`: weights that read absent parents follow their prior, or are learned.",
        choices=("prior", "learned"),
    )
    kl_weight: float = setting(
        1.0, "`mlp`: weight of the parameters' KL divergence (the author's code: 0.01).", above=0
    )
    noise_sd: float | None = setting(
        None, "`mlp`: noise scale; None learns it (the author's code: 0.5).", above=0
    )
    warm_up: float = setting(
        0.0,
        "`mlp`: share of the steps in which the evaluated graph turns from relaxed to hard "
        "(the author's code: 1).",
        least=0,
        most=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.edge_gradient == "difference" and self.condition != "column":
            raise ValueError(
                "edge_gradient='difference' needs condition='column', so that an edge changes one "
                f"node only; got condition={self.condition!r}"
            )
        if self.warm_up and self.edge_gradient == "difference":
            raise ValueError(
                "warm_up needs edge_gradient='straight-through': differences are between hard "
                "graphs"
            )
        if self.orders == "moves":
            self._check_chains()
        elif self.correction != "none":
            raise ValueError(
                f"correction={self.correction!r} needs orders='moves': particles are not corrected"
            )

    def _check_chains(self) -> None:
        if self.rounds is not None and self.rounds < self.thin:
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
                "bound='published' with orders='moves' needs a flow as the guide: without one, the "
                "paper's bound is the tight one"
            )

    @property
    def enough(self) -> Agreement:
        """When chains may end before their budget does."""
        return Agreement.within(float(self.agreement), float(self.effective_orders))

    def most_rounds(self, m: int) -> int:
        """How many estimated moves m variables get at most; fewer where each takes longer."""
        return max(ESTIMATED // m, self.check_every) if self.rounds is None else self.rounds

    @property
    def powers(self) -> Float[np.ndarray, " levels"]:
        """The power of the target at each level, once levels and flattest are known."""
        if self.levels is None or self.flattest is None:
            raise ValueError("levels and flattest must be resolved before powers are asked for")
        return power_ladder(self.levels, self.flattest)

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

    def starting_logits(
        self, alpha: Float[np.ndarray, "m m"], beta: Float[np.ndarray, "m m"]
    ) -> Float[np.ndarray, "m m"]:
        """The logits of the guide before the first step."""
        return np.log(alpha / beta) if self.start is None else np.full_like(alpha, self.start)


def restated(settings: type[Settings], name: str, default: Any) -> Any:
    """The field of a settings class with another default, for a named variant of it.

    Examples
    --------
    >>> restated(VariationalSettings, "particles", 20).default
    20
    """
    (own,) = (field for field in dataclasses.fields(settings) if field.name == name)
    return dataclasses.field(default=default, metadata=own.metadata)
