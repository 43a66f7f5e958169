"""Warnings about effect queries far outside the observed values."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from svidag.data import DataWarning
from svidag.data.columns import show
from svidag.problem import Problem

MARGIN = 0.1
"""How far outside the observed values a query may reach, as a share of their range."""


class ExtrapolationWarning(DataWarning):
    """A variable is set to a value far from all that were observed.

    Examples
    --------
    To make such a query an error:

    >>> import warnings
    >>> warnings.simplefilter("error", ExtrapolationWarning)
    >>> warnings.resetwarnings()
    """


def observed_range(problem: Problem) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """The least and the largest value of every variable, whether measured or set from outside."""
    ends = np.stack([problem.data.values.min(axis=0), problem.data.values.max(axis=0)])
    if problem.scaling is not None:
        ends = problem.scaling.invert(ends)
    return ends[0], ends[1]


def cautions(problem: Problem | None, values: Iterable[tuple[int, float]]) -> tuple[str, ...]:
    """A sentence for each column that is set to a value far outside the observed ones.

    Examples
    --------
    >>> import svidag
    >>> posterior = svidag.exact.posterior(svidag.datasets.two_node("linear", n=50).data)
    >>> cautions(posterior.problem, [(0, 0.0), (1, 90.0)])[0].partition(" is far")[0]
    "'x2' = 90"
    """
    if problem is None:
        return ()
    low, high = observed_range(problem)
    farthest: dict[int, tuple[float, float]] = {}
    for j, value in values:
        outside = max(low[j] - value, value - high[j])
        if outside > MARGIN * (high[j] - low[j]):
            farthest[j] = max(farthest.get(j, (0.0, value)), (outside, value))
    return tuple(
        f"{show(problem.data.names[j])} = {value:g} is far outside the observed values, "
        f"{low[j]:.4g} to {high[j]:.4g}: there the answer rests on the model alone"
        for j, (_, value) in farthest.items()
    )


def warn(sentences: Iterable[str]) -> None:
    """Give each sentence as a warning of the line that asked `Posterior`."""
    for sentence in sentences:
        warnings.warn(sentence, ExtrapolationWarning, stacklevel=4)
