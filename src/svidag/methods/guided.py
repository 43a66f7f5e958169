"""`edges="flow"` and `"mean-field"`: parents from a guide per node, without tables."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np

from svidag.inference.guided import Begun, Collected, Guided, Sampling, Settings, Training
from svidag.inference.order_law import VisitedGraphs
from svidag.inference.savepoint import (
    pack_sampling,
    pack_training,
    unpack_sampling,
    unpack_training,
)
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
        keep=lambda *state: task.savepoint.keep("guide", partial(_packed, scores, *state)),
        begun=_begun(task, scores),
        expired=task.deadline.passed,
    )
    graphs = found.sampling.graphs.reshape(-1, m, m)
    figures = {"edges": guide, **_figures(found, settings, scores)}
    if task.deadline.passed() and figures["status"] != "converged":
        figures["status"] = "time"
    warn_of_doubts(figures)
    return Found(VisitedGraphs(graphs, found.edge_probabilities), figures, _chosen(settings, guide))


def _packed(
    scores: LocalScores, training: Training, sampling: Sampling | None
) -> dict[str, np.ndarray]:
    """Everything that the rest of a run depends on, the scores known so far among it."""
    packed = pack_training(training)
    if sampling is not None:
        packed |= pack_sampling(sampling)
    if isinstance(scores, CachedScores):
        packed |= {f"cache_{name}": part for name, part in scores.arrays().items()}
    return packed


def _begun(task: Task, scores: LocalScores) -> Begun | None:
    packed = task.begun("guide")
    if packed is None:
        return None
    if isinstance(scores, CachedScores):
        scores.restore({name: packed[f"cache_{name}"] for name in ("keys", "scores")})
    sampling = unpack_sampling(packed) if "sampling_orders" in packed else None
    return lambda blank: (unpack_training(packed, blank), sampling)


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
