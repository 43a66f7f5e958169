"""`edges="flow"` and `"mean-field"`: parents from a guide per node, without tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from svidag.mechanisms.local import CachedScores, LocalScores
from svidag.methods.figures import (
    AGREEMENT,
    agreement,
    chain_figures,
    stated,
    warn_of_doubts,
)
from svidag.methods.ladder import ladder
from svidag.methods.task import Found, Task
from svidag.samplers.sampled_graphs import VisitedGraphs
from svidag.variational.node_inference import InferenceResult, NodeInference
from svidag.variational.node_settings import NodeSettings

_GUIDED = frozenset(f.name for f in dataclasses.fields(NodeSettings)) - {"guide", "enough"}
SETTINGS = _GUIDED | AGREEMENT
"""What may be set."""


def run(task: Task, guide: str, given: dict[str, Any]) -> Found:
    """Train a guide, move orders by unbiased estimates of their evidence, and keep graphs."""
    rows, m = task.problem.data.values.shape
    own = {name: value for name, value in given.items() if name in _GUIDED}
    settings = NodeSettings(
        **{**own, **ladder(rows, m, given)}, guide=guide, enough=agreement(given)
    )
    scores = _scores(task)

    found = NodeInference(scores, task.problem.prior, settings).run(
        task.seed,
        report=task.report,
        keep=lambda snapshot: task.checkpoint.keep("guide", snapshot),
        resume=task.begun("guide"),
        expired=task.deadline.passed,
    )
    graphs = found.sampling.graphs.reshape(-1, m, m)
    figures = {"edges": guide, **_figures(found, settings, scores)}
    warn_of_doubts(figures)
    return Found(VisitedGraphs(graphs, found.edge_probabilities), figures, _chosen(settings, guide))


def _scores(task: Task) -> LocalScores:
    """Evidences with their changes by one edge, in closed form or from a cache."""
    scores = task.scores
    return scores if isinstance(scores, LocalScores) else CachedScores(scores)


def _chosen(settings: NodeSettings, guide: str) -> dict[str, Any]:
    """Every setting as one would pass it."""
    named = {**dataclasses.asdict(settings), "edges": guide, **stated(settings.enough)}
    return {name: named[name] for name in sorted(SETTINGS | {"edges"})}


def _figures(found: InferenceResult, settings: NodeSettings, scores: LocalScores) -> dict[str, Any]:
    """What the fit reports about its own quality."""
    sampling = found.sampling
    estimated = settings.correction == "pseudo-marginal"
    return {
        **chain_figures(
            sampling.edges, sampling.orders, sampling.log_evidence, rule=settings.enough
        ),
        "status": found.status.value,
        "accepted": found.accepted,
        "sweeps": settings.sweeps * sampling.length,
        "bound_trace": found.bounds,
        "estimate_spread": found.estimate_spread if estimated else None,
        "kept_share": found.known_share if estimated else None,
        "kept_missing": found.missing if estimated else None,
        "kept_sets": int(found.kept_sets.sum()),
        "scored_sets": len(scores) if isinstance(scores, CachedScores) else None,
        "graphs": int(np.prod(sampling.graphs.shape[:2])),
    }
