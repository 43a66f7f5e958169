"""DirectLiNGAM with bootstrap resamples, a baseline of studies for linear non-Gaussian data.

Shimizu et al. (2011), in the implementation of the package ``lingam``. Name it in a study as
``svidag.bench.lingam:direct_lingam``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from svidag.datasets import Example
from svidag.posterior import DrawnGraphs, Posterior
from svidag.prior import Prior


def direct_lingam(
    example: Example, *, prior: Prior, seed: int, resamples: int = 20, threshold: float = 0.0
) -> Posterior:
    """Fit DirectLiNGAM to bootstrap resamples of the rows; each gives one graph.

    The probability of an arrow is the share of resamples whose graph has it. An arrow is there if
    the absolute value of its coefficient exceeds `threshold`; the package sets coefficients to
    zero by an adaptive lasso, so that 0 counts as it does.

    Parameters
    ----------
    example
        The data; interventions are refused, since the method has no place for them.
    prior
        Must state nothing, for the same reason.
    seed
        Of the resamples.
    resamples
        Number of resamples, each with as many rows as the data.
    threshold
        Coefficients up to this do not count.
    """
    if example.interventions is not None:
        raise ValueError("direct_lingam cannot use interventions, and the example has some")
    if prior != Prior():
        raise ValueError("direct_lingam cannot use a prior, and one was stated")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    lingam = _package()
    rows = example.data.to_numpy(dtype=float)
    rng = np.random.default_rng(seed)
    graphs = [
        _graph(lingam, rows[rng.integers(len(rows), size=len(rows))], threshold)
        for _ in range(resamples)
    ]
    share = np.full(resamples, 1 / resamples)
    return Posterior(example.names, DrawnGraphs(np.stack(graphs), share))


def _graph(
    lingam: Any, rows: Float[np.ndarray, "N m"], threshold: float
) -> UInt8[np.ndarray, "m m"]:
    """The graph of one fit, in our convention: the package's B[i, j] belongs to j → i."""
    model = lingam.DirectLiNGAM()
    model.fit(rows)
    return (np.abs(model.adjacency_matrix_.T) > threshold).astype(np.uint8)


def _package() -> Any:
    """Import the package ``lingam``; only a study needs it."""
    try:
        import lingam
    except ImportError as error:
        raise ImportError(
            "direct_lingam needs the package lingam: pip install 'svidag[studies]'"
        ) from error
    return lingam
