"""From orders to structures: count each graph once, not once per linear extension.

Uniform orders weigh a DAG by the number of its linear extensions. Draws are reweighted by one over
that number; their effective sample size, (Σ w)² / Σ w², says what is left of them. The number is
exact where every graph is small enough, and otherwise estimated for all of them.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, UInt8

from svidag.graph import LimitError, distinct, log_linear_extensions
from svidag.graph.extension import estimate_log_linear_extensions
from svidag.posterior.diagnostics import Level, Reason, StructureWeights
from svidag.posterior.distributions import DrawnGraphs
from svidag.posterior.posterior import Posterior
from svidag.run.streams import Stream, generator

POOL = 10_000  # draws to reweight
EXACT = 1024  # sets of nodes that counting may take for a graph; any ten nodes have no more
ORDERS = 100  # drawn for each estimate
ENOUGH, FEW = 400, 100
"""Effective draws for standard errors of a probability up to 0.025 and 0.05."""


def structure_weighted(posterior: Posterior, seed: int, pool: int = POOL) -> Posterior:
    """The posterior in which every graph counts once, from `pool` draws of the order model.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> orders = svidag.exact.posterior(example.data)
    >>> structures = structure_weighted(orders, seed=0)
    >>> structures.diagnostics.structure_weights.effective_draws > 100
    True
    """
    graphs, which = distinct(posterior.sample(pool, seed))
    count = np.bincount(which)
    log_count, error = _log_extensions(graphs, seed)
    share = count * np.exp(log_count.min() - log_count)
    probability = share / share.sum()
    # Equal draws carry equal weights: Σ w² over draws is Σ share² / count over distinct graphs.
    effective = 1.0 / float((probability**2 / count).sum())
    assert posterior.diagnostics is not None
    diagnostics = dataclasses.replace(
        posterior.diagnostics,
        graph_weights="structure",
        reasons=(*posterior.diagnostics.reasons, _judge(effective)),
        structure_weights=StructureWeights(effective, pool, error),
    )
    return dataclasses.replace(
        posterior,
        graphs=DrawnGraphs(graphs, probability),
        log_evidence=None,
        diagnostics=diagnostics,
    )


def _log_extensions(
    graphs: UInt8[np.ndarray, "S m m"], seed: int
) -> tuple[Float[np.ndarray, " S"], float]:
    """Log numbers of linear extensions, and the root mean square of their relative errors."""
    try:
        return log_linear_extensions(graphs, limit=EXACT), 0.0
    except LimitError:
        rng = generator(seed, Stream.LINEAR_EXTENSIONS)
        logs, errors = estimate_log_linear_extensions(graphs, ORDERS, rng)
        return logs, float(np.sqrt(np.mean(errors**2)))


def _judge(effective: float) -> Reason:
    text = f"Counting each graph once leaves {effective:.0f} effective draws"
    if effective >= ENOUGH:
        return Reason(Level.TRUST, f"{text}.")
    if effective >= FEW:
        return Reason(Level.CAREFUL, f"{text}, so that probabilities are rough.")
    return Reason(
        Level.NOT,
        f"{text}, too few for any probability; graph_weights='order' has no such loss.",
    )
