"""The exact posterior for small problems, and the judge of every approximation."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import Any

import numpy as np

from svidag.exact.orders import ExactOrders, ParentWeights, parent_weights
from svidag.exact.structures import ExactStructures, directions_alike, enumerated
from svidag.mechanisms.collapsed import parameter_distribution
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.wide import WideNetwork
from svidag.posterior import GraphDistribution, Posterior
from svidag.prior import EdgePrior, Prior
from svidag.problem import Problem

ORDER_LIMIT = 20  # 2^m tables for each node
NONLINEAR_LIMIT = 12  # 2^m networks to integrate out: half a minute for 1000 rows
STRUCTURE_LIMIT = 13  # 4^m sums over layers: half a minute
ENUMERATION_LIMIT = 5  # 29 281 graphs; six variables have 3.8 million

__all__ = ["posterior"]


def posterior(
    data: Any,
    *,
    prior: Prior | None = None,
    mechanism: str = "linear",
    interventions: Any = None,
    standardise: bool = True,
    graph_weights: str = "order",
    units: int = 200,
    seed: int = 0,
) -> Posterior:
    """Compute the posterior over causal graphs exactly, by dynamic programming over subsets.

    Parameters
    ----------
    data
        DataFrame, 2-d array, `Dataset`, or the path of a CSV, TSV or Parquet file.
    prior
        Beliefs and hard knowledge; by default one expected parent per variable.
    mechanism
        ``"linear"``: linear Gaussian mechanisms with their parameters integrated out (BGe).
        ``"nonlinear"``: wide networks with their output weights integrated out, for at most 12
        variables.
    interventions
        Boolean frame or array [N, m] of entries set from outside, or the name of the column that
        names each row's target. Such an entry does not count as evidence about its own causes.
    standardise
        Centre and scale each column by its entries that were not set from outside.
    graph_weights
        ``"order"``: uniform over orders, the model of the paper, so that a graph counts once for
        every order it agrees with. ``"structure"``: each graph counts once.
    units, seed
        Of nonlinear mechanisms, as in `svidag.fit`: hidden units, and the seed that draws them.

    Returns
    -------
    Posterior
        With exact edge and graph probabilities, exact log evidence and independent draws.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=5, edges=5, n=200, seed=0)
    >>> posterior = svidag.exact.posterior(example.data)
    >>> probability = posterior.edge_probabilities()
    >>> bool((probability.to_numpy() <= 1).all())
    True
    """
    started = time.perf_counter()
    if mechanism not in ("linear", "nonlinear"):
        raise ValueError(f"mechanism must be 'linear' or 'nonlinear'; got {mechanism!r}")
    if graph_weights not in ("order", "structure"):
        raise ValueError(f"graph_weights must be 'order' or 'structure'; got {graph_weights!r}")
    problem = Problem.build(data, prior=prior, interventions=interventions, standardise=standardise)
    names, table = problem.data.names, problem.data
    _check_size(len(names), ORDER_LIMIT, "the exact posterior")
    if mechanism == "linear":
        model = LinearGaussian.from_values(table.values, table.intervened)
    else:
        _check_size(len(names), NONLINEAR_LIMIT, "the exact posterior with nonlinear mechanisms")
        model = WideNetwork.from_values(
            table.values, names, table.intervened, units=units, seed=seed
        )
    distribution, log_evidence = _graphs(model.score_tables(), problem.prior, graph_weights)
    diagnostics = {
        "method": "exact",
        "mechanism": mechanism,
        "graph_weights": graph_weights,
        "standardised": standardise,
        "findings": problem.findings,
        "seconds": time.perf_counter() - started,
    }
    return Posterior(
        names,
        distribution,
        parameter_distribution(model, problem.scaling),
        log_evidence=log_evidence,
        diagnostics=MappingProxyType(diagnostics),
        problem=problem,
    )


def _graphs(
    scores: np.ndarray, edges: EdgePrior, graph_weights: str
) -> tuple[GraphDistribution, float]:
    """The distribution of the graph and log p(D | knowledge)."""
    weights = parent_weights(scores, edges)
    if graph_weights == "order":
        distribution = ExactOrders.build(weights, edges.required)
        return distribution, distribution.log_evidence
    # Where the data say nothing, the same sums normalise the prior.
    silent = parent_weights(np.where(np.isfinite(scores), 0.0, -np.inf), edges)
    distribution, log_total = _structures(weights, edges)
    return distribution, log_total - _structures(silent, edges)[1]


def _structures(weights: ParentWeights, edges: EdgePrior) -> tuple[GraphDistribution, float]:
    if directions_alike(weights, edges.required):
        _check_size(weights.m, STRUCTURE_LIMIT, "the exact posterior with structure weights")
        distribution = ExactStructures.build(weights)
        return distribution, distribution.log_total
    _check_size(
        weights.m,
        ENUMERATION_LIMIT,
        "the exact posterior with structure weights and beliefs that differ by direction "
        "(forbidden edges and tiers among them)",
    )
    return enumerated(weights)


def _check_size(m: int, limit: int, what: str) -> None:
    if m > limit:
        raise ValueError(
            f"{what} is feasible for at most {limit} variables; this table has {m}. "
            "Choose fewer columns; linear mechanisms with graph_weights='order' allow up to "
            f"{ORDER_LIMIT} variables."
        )
