"""What is computed from a fitted posterior and its truth, and how it is averaged.

A measure gives records: dictionaries whose texts are dimensions of a table (level, convention) and
whose numbers are metrics in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, UInt8

from svidag import metrics
from svidag.datasets import Example, sachs
from svidag.datasets.sachs import TRUTHS
from svidag.graph import is_dag, size
from svidag.posterior import Posterior
from svidag.posterior.sensitivity import SURE
from svidag.prior import Prior
from svidag.problem import Problem

CONVENTIONS = ("standard", "reference")
COMPARED_DRAWS = 200
"""At most this many draws have their log posterior compared with the true graph's."""

Records = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A data set with its truth, the posterior of a fit to it, and draws from that."""

    example: Example
    posterior: Posterior
    draws: UInt8[np.ndarray, "S m m"]
    levels: tuple[str, ...]
    prior: Prior
    seed: int


def averaged(records: Sequence[Records]) -> Records:
    """Mean and standard error over replicates of every metric, by dimension.

    Examples
    --------
    >>> averaged([[{"level": "dag", "brier": 0.25}], [{"level": "dag", "brier": 0.75}]])
    [{'level': 'dag', 'brier': 0.5, 'brier_se': 0.25, 'count': 2}]
    """
    groups: dict[tuple, Records] = {}
    for record in (record for each in records for record in each):
        dimensions = tuple((k, v) for k, v in record.items() if isinstance(v, str))
        groups.setdefault(dimensions, []).append(record)
    return [dict(key) | _summary(group) for key, group in groups.items()]


def _summary(group: Records) -> dict[str, float | int]:
    names = dict.fromkeys(k for record in group for k, v in record.items() if _number(v))
    summary: dict[str, float | int] = {}
    for name in names:
        values = np.array([record[name] for record in group if _number(record.get(name))])
        summary[name] = float(values.mean())
        if len(values) > 1:
            summary[f"{name}_se"] = float(values.std(ddof=1) / np.sqrt(len(values)))
    return summary | {"count": len(group)}


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Measure:
    """How one outcome is scored, and how the scores of all replicates are summed up."""

    score: Callable[[Outcome], Records]
    summarise: Callable[[Sequence[Records]], Records] = averaged


def scores(outcome: Outcome) -> Records:
    """Brier, E-SHD, E-F1 and AUROC at each level in both conventions.

    Where the convention works with the probabilities of arrows, ``brier_edges`` and
    ``auroc_edges`` are the same from the posterior's own probabilities instead of frequencies
    among the draws.
    """
    return _scores(outcome, outcome.example.truth)


def truths(outcome: Outcome) -> Records:
    """The same against each of the three networks published for the Sachs data."""
    return [
        {"truth": name} | record
        for name in TRUTHS
        for record in _scores(outcome, sachs(truth=name).truth)
    ]


def _scores(outcome: Outcome, truth: pd.DataFrame) -> Records:
    cyclic = not is_dag(truth.to_numpy())
    return [
        {"level": level, "convention": convention}
        | _evaluate(outcome, truth, level, convention, cyclic)
        for level in outcome.levels
        for convention in CONVENTIONS
        # A cyclic truth has no equivalence class; only the reference scores it nevertheless.
        if not (cyclic and level == "cpdag" and convention == "standard")
    ]


def _evaluate(
    outcome: Outcome, truth: pd.DataFrame, level: str, convention: str, cyclic: bool
) -> dict[str, float]:
    options: dict[str, Any] = {
        "level": level,
        "convention": convention,
        "names": outcome.posterior.names,
        "allow_cyclic_truth": cyclic and convention == "reference",
    }
    found = metrics.evaluate(outcome.draws, truth, **options)
    if (level, convention) == ("cpdag", "standard"):
        return found
    edges = outcome.posterior.edge_probabilities().to_numpy()
    own = metrics.evaluate(outcome.draws, truth, probabilities=np.clip(edges, 0.0, 1.0), **options)
    return found | {f"{name}_edges": own[name] for name in ("brier", "auroc")}


def mec(outcome: Outcome) -> Records:
    """How much of the true equivalence class occurs among the draws, and what share they give it.

    ``mec_size`` is the number of its members.
    """
    truth = outcome.example.truth.to_numpy()
    return [
        {
            "mec_coverage": metrics.mec_coverage(outcome.draws, truth),
            "mec_mass": metrics.mec_mass(outcome.draws, truth),
            "mec_size": size(truth),
        }
    ]


def shares(outcome: Outcome) -> Records:
    """Two variables: shares of draws with the first causing the second, the reverse, and none."""
    forward, backward = outcome.draws[:, 0, 1].mean(), outcome.draws[:, 1, 0].mean()
    return [
        {
            "forward": float(forward),
            "backward": float(backward),
            "none": float(1 - forward - backward),
        }
    ]


def against_exact(outcome: Outcome) -> Records:
    """Mean and largest difference of edge probabilities from those of the exact posterior.

    ``draws_error`` is the largest difference of the frequencies among the draws. The exact
    posterior uses the data in the scale of the fit. If the fit is nonlinear it uses the same hidden
    units; if its mechanism cannot be integrated out, the exact posterior is the linear one.
    """
    from svidag import exact

    problem = _problem(outcome, "exact")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit has already warned about the data
        exact_posterior = exact.posterior(
            problem.data,
            prior=outcome.prior,
            mechanism="nonlinear" if _nonlinear(outcome) else "linear",
            # The prior of linear mechanisms is another one for columns that were standardised;
            # to standardise them again changes nothing.
            standardise=problem.scaling is not None,
            seed=outcome.seed,
        )
    right = exact_posterior.edge_probabilities().to_numpy()
    off = ~np.eye(len(right), dtype=bool)
    error = np.abs(outcome.posterior.edge_probabilities().to_numpy() - right)[off]
    drawn = np.abs(outcome.draws.mean(axis=0) - right)[off]
    return [
        {
            "mean_error": float(error.mean()),
            "worst_error": float(error.max()),
            "draws_error": float(drawn.max()),
        }
    ]


def against_truth(outcome: Outcome) -> Records:
    """Mean log posterior of the draws minus that of the true graph, in natural logarithms.

    Up to a constant the log posterior of a graph is Σ_j f_j(parents of j) + Σ logit p_ij over its
    arrows that hard knowledge leaves open, with f_j the evidence under the mechanism of the fit;
    for a mechanism that cannot be integrated out it is linear. Every graph counts once, not once
    for each order that it agrees with. Far below zero, the fit missed graphs that explain the data
    better. Not defined where hard knowledge rules out the true graph.
    """
    problem = _problem(outcome, "truth")
    names = list(problem.data.names)
    truth = outcome.example.truth.loc[names, names].to_numpy().astype(np.uint8)
    if not is_dag(truth):
        raise ValueError("the measure 'truth' needs a true graph without cycles")
    drawn = len(outcome.draws)
    # Draws may come chain after chain, so those compared are spread over all of them.
    compared = np.linspace(0, drawn - 1, min(drawn, COMPARED_DRAWS)).astype(int)
    graphs = np.concatenate([truth[None], outcome.draws[compared]])
    # log p(B) differs from the sum of log odds by a constant, and is −∞ against hard knowledge.
    log_posterior = _evidence(outcome, problem, graphs) + problem.prior.log_marginal(graphs)
    return [{"nats_from_truth": float((log_posterior[1:] - log_posterior[0]).mean())}]


def _evidence(
    outcome: Outcome, problem: Problem, graphs: UInt8[np.ndarray, "S m m"]
) -> Float[np.ndarray, " S"]:
    """Σ_j f_j(parents of j) of each graph; a family that several share is scored once."""
    from svidag.mechanisms.local import CachedScores
    from svidag.methods import OrderMCMC
    from svidag.methods.mechanism_building import MechanismBuilder

    build = MechanismBuilder(problem, outcome.seed)
    model = build.network(OrderMCMC.units) if _nonlinear(outcome) else build.linear()
    count, m, _ = graphs.shape
    nodes = np.tile(np.arange(m), count)
    parents = graphs.swapaxes(1, 2).reshape(-1, m).astype(bool)
    return CachedScores(model).family_scores(nodes, parents).reshape(count, m).sum(axis=1)


def _problem(outcome: Outcome, name: str) -> Problem:
    """The data and beliefs of the fit, in its scale, for the measure of this name."""
    problem = outcome.posterior.problem
    if problem is None:
        raise ValueError(f"the measure {name!r} needs a posterior that carries its problem")
    return problem


def _nonlinear(outcome: Outcome) -> bool:
    return outcome.posterior.mechanism == "nonlinear"


def forecasts(outcome: Outcome) -> Records:
    """The probability of every arrow and whether it is there, for calibration over replicates."""
    off = ~np.eye(len(outcome.example.truth), dtype=bool)
    p = outcome.posterior.edge_probabilities().to_numpy()[off]
    return [
        {
            "probability": [round(float(x), 5) for x in np.clip(p, 0.0, 1.0)],
            "outcome": outcome.example.truth.to_numpy()[off].tolist(),
        }
    ]


def pooled(records: Sequence[Records]) -> tuple[Float[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Probabilities and outcomes of all replicates, one after another."""
    p = np.concatenate([each[0]["probability"] for each in records])
    y = np.concatenate([each[0]["outcome"] for each in records])
    return p.astype(float), y.astype(int)


def calibration(records: Sequence[Records]) -> Records:
    """Calibration error of all forecasts together, and the band of a perfect forecaster."""
    p, y = pooled(records)
    low, high = metrics.calibration_band(p)
    error = metrics.expected_calibration_error(p, y)
    return [
        {
            "ece": error,
            "band_low": low,
            "band_high": high,
            "verdict": "within" if error <= high else "above",
            "mean_forecast": float(p.mean()),
            "frequency": float(y.mean()),
            "brier": metrics.brier(p, y),
            "count": len(records),
        }
    ]


def sureness(records: Sequence[Records]) -> Records:
    """How many arrows are sure, how many of those are wrong, and how far all are from the truth.

    ``sure`` and ``sure_wrong`` count arrows with p > 0.95 in all replicates together, beside
    ``true_arrows``, the number that there are; ``wrong_share`` = sure_wrong / sure is left out
    where no arrow is sure. ``absolute_error`` is Σ |p − y| per graph. Calibration error and Brier
    score are of all forecasts together.

    Examples
    --------
    >>> one = [{"probability": [1.0, 0.96, 0.5], "outcome": [1, 0, 1]}]
    >>> other = [{"probability": [0.0, 0.0, 0.95], "outcome": [0, 0, 1]}]
    >>> (found,) = sureness([one, other])
    >>> found["sure"], found["sure_wrong"], found["true_arrows"], found["wrong_share"]
    (2, 1, 3, 0.5)
    """
    p, y = pooled(records)
    sure = p > SURE
    wrong = int((sure & (y == 0)).sum())
    error = [
        {"absolute_error": float(np.abs(one - other).sum())}
        for one, other in (pooled([each]) for each in records)
    ]
    (spread,) = averaged([error])
    return [
        {"true_arrows": int(y.sum()), "sure": int(sure.sum()), "sure_wrong": wrong}
        | ({"wrong_share": wrong / int(sure.sum())} if sure.any() else {})
        | spread
        | {"ece": metrics.expected_calibration_error(p, y), "brier": metrics.brier(p, y)}
    ]


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "scores": Measure(scores),
        "truths": Measure(truths),
        "mec": Measure(mec),
        "shares": Measure(shares),
        "exact": Measure(against_exact),
        "truth": Measure(against_truth),
        "forecasts": Measure(forecasts, calibration),
        "sureness": Measure(forecasts, sureness),
    }
)
