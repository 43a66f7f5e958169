"""`edges="flow"` and `"mean-field"`: parents from a guide per node, without tables."""

from __future__ import annotations

import dataclasses
from functools import partial
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
from svidag.run.checkpoint import arrays_of, with_arrays
from svidag.samplers.sampled_graphs import VisitedGraphs
from svidag.variational.node_inference import Begun, Collected, Guided, Sampling, Settings, Training

_GUIDED = frozenset(f.name for f in dataclasses.fields(Settings)) - {"guide", "enough"}
SETTINGS = _GUIDED | AGREEMENT
"""What may be set."""


def run(task: Task, guide: str, given: dict[str, Any]) -> Found:
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

    found = Guided(scores, task.problem.prior, settings).run(
        task.seed,
        report=report,
        keep=lambda *state: task.checkpoint.keep("guide", partial(_state, scores, *state)),
        begun=_begun(task, scores),
        expired=task.deadline.passed,
    )
    graphs = found.sampling.graphs.reshape(-1, m, m)
    figures = {"edges": guide, **_figures(found, settings, scores)}
    if task.deadline.passed() and figures["status"] != "converged":
        figures["status"] = "time"
    warn_of_doubts(figures)
    return Found(VisitedGraphs(graphs, found.edge_probabilities), figures, _chosen(settings, guide))


def _state(scores: LocalScores, training: Training, sampling: Sampling | None) -> dict[str, Any]:
    """Everything that the rest of a run depends on, the scores known so far among it."""
    return {
        "guides": arrays_of(training.state),
        "sets": training.collection.arrays(),
        "replicas": training.replicas,
        "bounds": training.bounds,
        "sampling": sampling,
        "scores": scores.arrays() if isinstance(scores, CachedScores) else None,
    }


def _begun(task: Task, scores: LocalScores) -> Begun | None:
    kept = task.begun("guide")
    if kept is None:
        return None
    if isinstance(scores, CachedScores):
        scores.restore(kept["scores"])

    def resume(blank: Training) -> tuple[Training, Sampling | None]:
        state = with_arrays(blank.state, kept["guides"])
        collection = blank.collection.restored(kept["sets"])
        return Training(state, collection, kept["replicas"], kept["bounds"]), kept["sampling"]

    return resume


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
    estimated = settings.correction == "pseudo-marginal"
    return {
        **chain_figures(
            sampling.edges, sampling.orders, sampling.log_evidence, rule=settings.enough
        ),
        "accepted": found.accepted,
        "sweeps": settings.sweeps * sampling.rounds,
        "bound_trace": found.bounds,
        "estimate_spread": found.spread if estimated else None,
        "kept_share": found.known if estimated else None,
        "kept_missing": found.missing if estimated else None,
        "kept_sets": int(found.kept.sum()),
        "scored_sets": len(scores) if isinstance(scores, CachedScores) else None,
        "graphs": int(np.prod(sampling.graphs.shape[:2])),
    }
