"""The settings of the published algorithm, with the values of the paper's table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import optax

from svidag.networks.flows import FAMILIES
from svidag.orders.relaxation import Sinkhorn
from svidag.variational.published_bound import BoundEstimation


@dataclass(frozen=True)
class PublishedSettings:
    """What the paper's table fixes, and the author's choices where the table is silent.

    Attributes
    ----------
    iterations, particles, batch, draws
        T_itr, K_part, |D_b| and S_MC.
    edges
        The guide over edges: a flow family by name, ``"mean-field"`` for Gaussian logits that
        ignore the order, or ``"bernoulli"`` for the bound without a flow (Eq. ELBO-br).
    orders
        ``"stein"`` for particles, ``"gaussian"`` for a reparameterised Gaussian over potentials.
    blocks, bins, boundary, width
        The flow: number of blocks, spline bins and domain, hidden width of its conditioners.
    hidden, hyper, condition
        Hidden layers of the mechanisms and of the hypernetworks; what a hypernetwork sees, its
        node's ``"column"`` or the whole ``"graph"``.
    edge_gradient
        ``"straight-through"`` as published: the bound's derivative at the hard graph.
        ``"difference"``: its change when the edge is put in or taken out, for m more forward
        passes a step; needs ``condition="column"``.
    temperature, tau, tau_initial
        T of the relaxed edges; τ of the relaxed order, where it ends and where it begins. It falls
        linearly over the run.
    sinkhorn_iterations
        K_S; None takes the limit of infinitely many, which a few Newton steps reach.
    scale_invariant
        Divide potentials by their root mean square before the relaxation.
    potential_scale
        σ_r of the prior over potentials.
    learning_rate, gradient_clip, particle_rate, particle_clip
        Adam's rate and global norm clip for φ; η_r and ℓ2 clip for the particles.
    optimiser, particle_optimiser
        Any optax transformation in place of those.
    patience
        Steps in a window of the stopping rule (`Plateau`); None runs all iterations.
    """

    iterations: int = 2500
    particles: int = 20
    batch: int = 64
    draws: int = 1
    edges: str = "spline-coupling"
    orders: str = "stein"
    blocks: int = 5
    bins: int = 8
    boundary: float = 5.0
    width: int = 64
    hidden: Sequence[int] = (32, 32)
    hyper: Sequence[int] = (16, 16)
    condition: str = "column"
    edge_gradient: str = "straight-through"
    temperature: float = 0.3
    tau: float = 0.1
    tau_initial: float = 20.0
    sinkhorn_iterations: int | None = None
    scale_invariant: bool = False
    potential_scale: float = 1.0
    learning_rate: float = 3e-3
    gradient_clip: float = 1.0
    particle_rate: float = 0.1
    particle_clip: float = 10.0
    optimiser: optax.GradientTransformation | None = None
    particle_optimiser: optax.GradientTransformation | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        self._check_counts()
        for name in (
            "temperature",
            "tau",
            "tau_initial",
            "potential_scale",
            "learning_rate",
            "gradient_clip",
            "particle_rate",
            "particle_clip",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive; got {getattr(self, name)!r}")
        choices = {
            "edges": (*FAMILIES, "mean-field", "bernoulli"),
            "orders": ("stein", "gaussian"),
            "condition": ("column", "graph"),
            "edge_gradient": ("straight-through", "difference"),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}; got {getattr(self, name)!r}")
        if self.edge_gradient == "difference" and self.condition != "column":
            raise ValueError(
                "edge_gradient='difference' needs condition='column', so that an edge changes one "
                f"node only; got condition={self.condition!r}"
            )

    def _check_counts(self) -> None:
        for name in ("iterations", "particles", "batch", "draws", "blocks", "bins", "width"):
            if not _is_count(getattr(self, name)):
                raise ValueError(
                    f"{name} must be a positive whole number; got {getattr(self, name)!r}"
                )
        for name, least in (("sinkhorn_iterations", 1), ("patience", 2)):
            value = getattr(self, name)
            if value is not None and not _is_count(value, least):
                raise ValueError(
                    f"{name} must be None or a whole number from {least} on; got {value!r}"
                )
        for name in ("hidden", "hyper"):
            widths = getattr(self, name)
            if not isinstance(widths, tuple | list) or not all(map(_is_count, widths)):
                raise ValueError(
                    f"{name} must list positive whole numbers, the width of each hidden layer; "
                    f"got {widths!r}"
                )
            object.__setattr__(self, name, tuple(widths))

    @property
    def sinkhorn(self) -> Sinkhorn:
        """The relaxation's solver: the limit, or K_S sweeps as published with their derivative."""
        if self.sinkhorn_iterations is None:
            return Sinkhorn(scale_invariant=self.scale_invariant)
        return Sinkhorn(
            sweeps=self.sinkhorn_iterations,
            newton=0,
            start="flat",
            gradient="unrolled",
            scale_invariant=self.scale_invariant,
        )

    @property
    def estimation(self) -> BoundEstimation:
        """How the bound is estimated."""
        return BoundEstimation(self.temperature, self.batch, self.draws, self.edge_gradient)


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
