"""Settings of BCD Nets."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

from svidag.run.settings import Settings, setting


@dataclass(frozen=True)
class BCDSettings(Settings):
    """What BCD Nets can be asked to do differently."""

    iterations: int = setting(8000, "Steps.", least=1)
    step_draws: int = setting(32, "Draws of weights and order at each step.", least=1)
    learning_rate: float = setting(1e-3, "Learning rate of AdaBelief.", above=0)
    temperatures: tuple[float, ...] = setting(
        (30.0, 10.0, 1.0), "Temperature of the order in each equal part of the steps.", above=0
    )
    horseshoe: str = setting(
        "sparse",
        "Scale of the prior on weights: from the degree alone, or divided by √N as published.",
        choices=("sparse", "published"),
    )
    degree: float = setting(1.0, "Neighbours that a variable is expected to have, halved.", above=0)
    noise_spread: float = setting(3.0, "Prior standard deviation of log noise.", above=0)
    equal_noise: bool = setting(False, "Whether all variables have one noise scale.")
    hidden: tuple[int, ...] = setting((128, 128), "Widths of the network over orders.", least=1)
    network_decay: float = setting(
        0.0, "Multiple of its weights added to the gradient of the network over orders.", least=0
    )
    threshold: float = setting(0.3, "Weight above which an arrow is counted.", least=0)
    draws: int = setting(2000, "Graphs drawn when the fit is over.", least=1)
    edges: str = setting(
        "threshold",
        "What counts as an arrow: a weight above the threshold, or of at least half the largest.",
        choices=("threshold", "normalised"),
    )
    chunk: int = setting(100, "Steps between two reports.", least=1)

    def scale(self, m: int, rows: int) -> float:
        """τ of the horseshoe; where the published rule has no positive value, the other one."""
        spare = m - 1 - 2 * self.degree
        if self.horseshoe == "published" and spare > 0:
            return 2 * self.degree / spare / rows**0.5
        return sparse_scale(m, self.degree)


def sparse_scale(m: int, degree: float) -> float:
    """τ for m variables of which each has so many neighbours: r √log(1/r), r = 2 degree/(m − 1).

    Examples
    --------
    >>> round(sparse_scale(25, 1.0), 3), sparse_scale(3, 1.0)
    (0.131, 0.16666666666666666)
    """
    r = min(2 * degree / (m - 1), 1.0)
    return r * sqrt(log(1 / r)) if r < 1 else 1 / (2 * m)
