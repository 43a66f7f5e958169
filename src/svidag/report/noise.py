"""The noise of each variable: what mechanisms leave unexplained, and what the fit expects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from svidag.posterior import Posterior
from svidag.posterior.residuals import expected_noise, residuals

BINS = 24
"""Bars of a plot."""
TAIL = 0.005
"""Share of residuals on either side that a plot need not show."""
FEWEST = 20
"""Residuals that are needed for a plot."""
_GRID = ndtri(np.linspace(0.0005, 0.9995, 400))


@dataclass(frozen=True)
class NoisePlot:
    """Shares of residuals between equally spaced values, and the shares that the fit expects.

    Both are divided by the largest of all, so that the highest is 1.
    """

    bars: tuple[float, ...]
    expected: tuple[float, ...]

    @property
    def difference(self) -> float:
        """Half the summed difference of the shares: 0 where they are equal, at most 1."""
        bars, expected = np.array(self.bars), np.array(self.expected)
        return float(np.abs(bars / bars.sum() - expected / expected.sum()).sum() / 2)


def noise_plots(posterior: Posterior) -> tuple[NoisePlot | None, ...]:
    """A plot for each continuous variable; None for others, and where there is nothing to show.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=3, edges=2, n=500, seed=1)
    >>> [round(plot.difference, 1) for plot in noise_plots(svidag.exact.posterior(example.data))]
    [0.1, 0.1, 0.1]
    """
    problem = posterior.problem
    if problem is None or posterior.mechanisms is None:
        return (None,) * len(posterior.names)
    left, fitted = residuals(posterior), expected_noise(posterior, _GRID)
    return tuple(
        _plot(left[:, j], fitted[:, j]) if problem.data.continuous[j] else None
        for j in range(len(posterior.names))
    )


def _plot(left: Float[np.ndarray, " R"], fitted: Float[np.ndarray, " L"]) -> NoisePlot | None:
    left = left[np.isfinite(left)]
    if len(left) < FEWEST or not np.isfinite(fitted).all():
        return None
    low, high = np.quantile(left, [TAIL, 1 - TAIL])
    # Fitted noise within the same distance in probability is in sight too.
    low, high = min(low, np.quantile(fitted, TAIL)), max(high, np.quantile(fitted, 1 - TAIL))
    if not high > low:
        return None
    edges = np.linspace(low, high, BINS + 1)
    bars = np.histogram(left, edges)[0] / len(left)
    expected = np.diff(np.interp(edges, fitted, ndtr(_GRID), left=0.0, right=1.0))
    top = max(bars.max(), expected.max())
    return NoisePlot(
        tuple((bars / top).round(3).tolist()), tuple((expected / top).round(3).tolist())
    )
