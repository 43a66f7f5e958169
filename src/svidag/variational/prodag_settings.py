"""Settings of ProDAG."""

from __future__ import annotations

from dataclasses import dataclass

from svidag.run.settings import Settings, setting


@dataclass(frozen=True)
class ProDAGSettings(Settings):
    """What ProDAG can be asked to do differently."""

    iterations: int = setting(1000, "Most steps.", least=1)
    step_draws: int = setting(100, "Weighted graphs drawn at each step.", least=1)
    learning_rate: float = setting(0.1, "Learning rate of Adam.", above=0)
    patience: int | None = setting(
        5, "End when so many steps in a row do not beat the best bound; None: never.", least=1
    )
    noise: float = setting(1.0, "Standard deviation of the noise of every variable.", above=0)
    threshold: float = setting(0.1, "Strength above which the projection keeps an arrow.", least=0)
    hidden: int = setting(10, "Hidden units of each variable's network (mlp).", least=1)
    radius: str | float | None = setting(
        "held-out",
        "Radius of the ℓ1 ball: chosen by held-out rows, a number, or None for no ball.",
        least=0,
        choices=("held-out",),
    )
    held_out: float = setting(
        0.1, "Share of rows held out to choose the radius.", above=0, most=0.5
    )
    radii: int = setting(10, "Radii to choose from.", least=2)
    solver: str = setting(
        "scaled",
        "How the projection is computed: scaled, or at a fixed rate as published.",
        choices=("scaled", "gradient"),
    )
    step_tolerance: float = setting(1e-3, "Tolerance of the projection in steps.", above=0)
    tolerance: float = setting(1e-4, "Tolerance of the projection of final draws.", above=0)
    acyclic_steps: bool = setting(
        True, "Whether cycles that the tolerance leaves are broken in steps too."
    )
    draws: int = setting(2000, "Graphs drawn when the fit is over.", least=1)
    edges: str = setting(
        "nonzero",
        "What counts as an arrow: a weight that is not zero, or one of at least half the largest.",
        choices=("nonzero", "normalised"),
    )
    chunk: int = setting(25, "Steps between two reports.", least=1)
