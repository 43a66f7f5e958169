"""`edges="flow"` and `"mean-field"`: parents from a guide per node, without tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from svidag.inference.guided import Collected, Guided, Settings
from svidag.inference.order_law import VisitedGraphs
from svidag.mechanisms.local import CachedScores, LocalScores
from svidag.methods.figures import (
    AGREEMENT,
    agreement,
    chain_figures,
    stated,
    warn_of_disagreement,
)
from svidag.methods.ladder import ladder
from svidag.methods.task import Found, Task

_GUIDED = frozenset(f.name for f in dataclasses.fields(Settings)) - {"guide", "enough"}
SETTINGS = _GUIDED | AGREEMENT
"""What may be set."""


def run(task: Task, guide: str, given: dict[str, Any], *, fallback: str | None = None) -> Found:
    """Train a guide, move orders by unbiased estimates of their evidence, and keep graphs."""
    rows, m = task.problem.data.values.shape
    own = {name: value for name, value in given.items() if name in _GUIDED}
    settings = Settings(**{**own, **ladder(rows, m, given)}, guide=guide, enough=agreement(given))
    scores = _scores(task)

    def report(steps: int, rounds: int) -> None:
        if rounds == 0:
            task.report("training the guide", steps, settings.steps)
        else:
            task.report("moving orders", rounds, settings.rounds)

    found = Guided(scores, task.problem.prior, settings).run(task.seed, report=report)
    graphs = found.sampling.graphs.reshape(-1, m, m)
    figures = {"edges": guide, "fallback": fallback, **_figures(found, settings, scores)}
    warn_of_disagreement(figures)
    return Found(VisitedGraphs(graphs, found.edge_probabilities), figures, _chosen(settings, guide))


def _scores(task: Task) -> LocalScores:
    """Evidences with their changes by one edge, in closed form or from a cache."""
    scores = task.scores
    return scores if isinstance(scores, LocalScores) else CachedScores(scores)


def _chosen(settings: Settings, guide: str) -> dict[str, Any]:
    """Every setting as one would pass it."""
    named = {**dataclasses.asdict(settings), "edges": guide, **stated(settings.enough)}
    return {name: named[name] for name in sorted(SETTINGS | {"edges"})}


def _figures(found: Collected, settings: Settings, scores: LocalScores) -> dict[str, Any]:
    """What the fit reports about its own quality."""
    sampling = found.sampling
    return {
        **chain_figures(
            sampling.edges, sampling.orders, sampling.log_evidence, rule=settings.enough
        ),
        "accepted": found.accepted,
        "sweeps": settings.sweeps * sampling.rounds,
        "bound_trace": found.bounds,
        "estimate_spread": found.spread,
        "kept_share": found.known,
        "kept_missing": found.missing,
        "kept_sets": int(found.kept.sum()),
        "scored_sets": len(scores) if isinstance(scores, CachedScores) else None,
        "graphs": int(np.prod(sampling.graphs.shape[:2])),
    }
