"""When a run may end: chains that agree, and a bound that has stopped rising."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

GROUPS = 4  # independent groups of chains that are compared

MEAN_ERROR_SHARE = 0.04
"""Expected mean error of edge probabilities at which chains may end, as a share of the tolerance.
Four chains tell their own error only up to a factor of two or three."""


@dataclass(frozen=True)
class Agreement:
    """Chains may end when their halves agree and they are worth enough independent draws.

    Attributes
    ----------
    tolerance
        The largest `half_disagreement` at which chains may end; 0 never ends them.
    effective
        The least `effective_size` of log p(D | order), all chains together.
    mean_error
        The largest `mean_error` of edge probabilities at which chains may end.
    """

    tolerance: float = 0.03
    effective: float = 400.0
    mean_error: float = 1.0

    @classmethod
    def within(cls, tolerance: float, effective: float) -> Agreement:
        """The rule of methods with chains: the mean error allowed follows from the tolerance."""
        return cls(tolerance, effective, MEAN_ERROR_SHARE * tolerance)

    def reached(
        self, edges: Float[np.ndarray, "groups m m"], trace: Float[np.ndarray, "chains S"]
    ) -> bool:
        """Whether all conditions hold.

        Examples
        --------
        >>> import numpy as np
        >>> alike, trace = np.zeros((2, 3, 3)), np.random.default_rng(0).random((2, 500))
        >>> Agreement().reached(alike, trace), Agreement(tolerance=0.0).reached(alike, trace)
        (True, False)
        """
        return (
            half_disagreement(edges) < self.tolerance
            and mean_error(edges) <= self.mean_error
            and effective_size(trace) >= self.effective
        )


@dataclass(frozen=True)
class Plateau:
    """A run may end when a metric has stopped rising: a window is no higher than the one before.

    With means μ₁ and μ₂ of the last two windows of n steps and their variances s², it ends when
    μ₂ − μ₁ ≤ 2 √((s₁² + s₂²)/n). Where a mean is not finite it goes on.

    Attributes
    ----------
    metric
        The name of the metric.
    window
        n.

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.random.default_rng(0).standard_normal(200)
    >>> rule = Plateau("bound", 100)
    >>> rule({"bound": noise}), rule({"bound": noise + np.arange(200)})
    (True, False)
    """

    metric: str
    window: int

    def __call__(self, trace: Mapping[str, np.ndarray]) -> bool:
        """Whether the metric has stopped rising."""
        n, steps = self.window, trace[self.metric]
        if len(steps) < 2 * n:
            return False
        before, last = steps[-2 * n :].astype(np.float64).reshape(2, n)
        error = np.sqrt((before.var(ddof=1) + last.var(ddof=1)) / n)
        return bool(last.mean() - before.mean() <= 2 * error)


def half_disagreement(edges: Float[np.ndarray, "chains m m"]) -> float:
    """The largest difference of an edge's probability between two halves of the chains.

    The chains are pooled into at most four groups, and of all ways to divide these the worst
    counts: for each edge the groups that rate it highest against those that rate it lowest. A fixed
    division would miss two modes that happen to have visitors in both halves. Not a number for a
    single chain.

    Examples
    --------
    >>> import numpy as np
    >>> edges = np.zeros((4, 2, 2))
    >>> edges[:, 0, 1] = [0.9, 0.1, 0.9, 0.1]
    >>> round(half_disagreement(edges), 6)
    0.8
    """
    groups = min(len(edges), GROUPS)
    half = groups // 2
    if half == 0:
        return float("nan")
    pooled = [edges[g::groups].mean(axis=0) for g in range(groups)]
    ranked = np.sort(pooled, axis=0)
    return float((ranked[-half:].mean(axis=0) - ranked[:half].mean(axis=0)).max())


def mean_error(edges: Float[np.ndarray, "chains m m"]) -> float:
    """The mean error of the chains' average edge probabilities that their differences let expect.

    With s the standard deviation of an edge's probability over C independent chains, its mean over
    them has the standard error s/√C and, being nearly normal, the mean error √(2/π) s/√C. This is
    averaged over all pairs of variables. Not a number for a single chain.

    Examples
    --------
    >>> import numpy as np
    >>> edges = 0.3 + 0.1 * np.random.default_rng(0).standard_normal((4, 50, 50))
    >>> round(mean_error(edges), 2)  # of four chains with a standard deviation of 0.1
    0.04
    """
    C, m, _ = edges.shape
    if C < 2 or m < 2:
        return float("nan")
    # A standard deviation from C values is too small on average, by this factor.
    bias = math.sqrt(2 / (C - 1)) * math.exp(math.lgamma(C / 2) - math.lgamma((C - 1) / 2))
    spread = edges.std(axis=0, ddof=1) / bias
    pairs = m * (m - 1)
    return float(np.sqrt(2 / np.pi / C) * (spread.sum() - np.trace(spread)) / pairs)


def effective_size(trace: Float[np.ndarray, "chains S"]) -> float:
    """How many independent draws the chains' mean is worth, from their autocorrelation.

    C · S / (1 + 2 Σ_t ρ_t), the sum cut off where pairs of neighbouring terms stop being positive
    and falling (Geyer 1992); ρ_t also counts what separates the chains (Gelman et al., Bayesian
    Data Analysis, section 11.5). At most C · S; a trace that never changes counts in full.

    Examples
    --------
    >>> import numpy as np
    >>> white = np.random.default_rng(0).standard_normal((4, 1000))
    >>> bool(effective_size(white) > 3000), bool(effective_size(white.cumsum(axis=1)) < 100)
    (True, True)
    """
    C, S = trace.shape
    if S < 4 or np.ptp(trace) == 0:
        return float(trace.size)
    centred = trace - trace.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * S, axis=1)
    covariance = np.fft.irfft((spectrum * spectrum.conj()).real, axis=1)[:, :S].mean(axis=0) / S
    within = covariance[0] * S / (S - 1)
    total = within * (S - 1) / S + (trace.mean(axis=1).var(ddof=1) if C > 1 else 0.0)
    rho = 1 - (within - covariance * S / (S - 1)) / total
    pairs = rho[: S // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = len(pairs) if (pairs > 0).all() else int(np.argmin(pairs > 0))
    falling = np.minimum.accumulate(pairs[: max(1, positive)])
    return float(min(trace.size, trace.size / max(2 * falling.sum() - 1, 1e-12)))


def effective_count(items: Shaped[np.ndarray, "S m"] | Int[np.ndarray, "S m"]) -> float:
    """How many equally frequent rows would be as diverse: 1/Σ p² over the distinct rows.

    Examples
    --------
    >>> import numpy as np
    >>> effective_count(np.array([[0, 1], [1, 0], [0, 1], [1, 0]]))
    2.0
    """
    _, count = np.unique(items, axis=0, return_counts=True)
    share = count / len(items)
    return float(1 / (share @ share))
