"""The settings of inference with a guide for each node, the switches of ablations among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from svidag.orders.permutation import power_ladder
from svidag.run.convergence import Agreement
from svidag.samplers.relocation import MOVES
from svidag.variational.edge_objective import BOUNDS, EDGE_GRADIENTS

__all__ = ["NodeSettings"]

CHOICES = MappingProxyType(
    {
        "guide": ("flow", "mean-field"),
        "bound": BOUNDS,
        "edge_gradient": EDGE_GRADIENTS,
        "correction": ("pseudo-marginal", "none"),
        "moves": MOVES,
    }
)
"""The switches, and what each may be."""


@dataclass(frozen=True)
class NodeSettings:
    """How the guide is trained and how long the chains run.

    Attributes
    ----------
    guide
        ``"flow"`` or ``"mean-field"``.
    blocks, bins, boundary, width, depth
        The flow of each node, as for the published guide.
    chains
        K.
    levels, flattest
        Replicas of a chain, and the power of the target at the first; powers rise geometrically.
    steps, rate
        Steps of Adam on the guide, and its learning rate, which falls to a tenth.
    training_orders, training_draws
        Orders in a step, half of them chosen among the chains and half among all their replicas,
        and draws of z for each of their columns.
    burn_in_sweeps, sweeps
        Sweeps of all replicas after each step, and between two estimates.
    reach, capacity
        Which parent sets are kept, and how many of each node (`ParentSetCollection`).
    rounds, draws
        Estimated moves after burn-in at most, and parent sets drawn for each estimate.
    look
        Rounds in a segment, after which the chains are compared.
    thin
        Rounds from one kept graph to the next.
    enough
        When chains may end before their budget is used up.
    bound, edge_gradient
        What the guide is trained on (`EdgeObjective`): ``"tight"`` or, for a flow,
        ``"published"``; by ``"local-expectation"`` or ``"straight-through"``.
    correction
        ``"pseudo-marginal"`` makes the posterior exact whatever the guide; with ``"none"`` orders
        move on the kept sets alone and graphs are draws from the guide.
    moves
        How orders move: by ``"relocation"``, ``"swap"`` of neighbours, or ``"none"``.
    """

    guide: str = "flow"
    blocks: int = 2
    bins: int = 8
    boundary: float = 5.0
    width: int = 32
    depth: int = 1
    chains: int = 4
    levels: int = 4
    flattest: float = 0.1
    steps: int = 300
    rate: float = 0.03
    training_orders: int = 8
    training_draws: int = 4
    burn_in_sweeps: int = 10
    sweeps: int = 40
    reach: float = 7.0
    capacity: int = 2000
    rounds: int = 200
    draws: int = 8
    look: int = 20
    thin: int = 2
    enough: Agreement = field(default_factory=Agreement)
    bound: str = "tight"
    edge_gradient: str = "local-expectation"
    correction: str = "pseudo-marginal"
    moves: str = "relocation"

    def __post_init__(self) -> None:
        self._check_choices()
        for name in ("chains", "levels", "steps", "training_orders", "rounds", "draws", "thin"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.rounds < self.thin:
            raise ValueError(
                f"rounds must be at least thin = {self.thin}, or no graph is kept; "
                f"got {self.rounds}"
            )
        if self.look % self.thin or self.look < 1:
            raise ValueError(f"look must be a multiple of thin = {self.thin}; got {self.look}")
        if not 0 < self.flattest <= 1:
            raise ValueError(f"flattest must be in (0, 1]; got {self.flattest}")

    def _check_choices(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} must be one of {list(known)}; got {getattr(self, name)!r}"
                )
        if self.bound == "published" and self.guide == "mean-field":
            raise ValueError(
                "bound='published' needs a flow (edges='flow'): without one, the paper's bound "
                "is the tight one"
            )

    @property
    def powers(self) -> Float[np.ndarray, " levels"]:
        """The power of the target at each level."""
        return power_ladder(self.levels, self.flattest)
