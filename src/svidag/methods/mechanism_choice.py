"""Mechanisms with their parameters integrated out, and the choice between them by evidence.

All mechanisms give normalised densities of the same rows, so their logarithms compare. For each
node the parents are chosen greedily, by that mechanism's own evidence and the prior's odds, without
regard to cycles: the sum over nodes is a pseudo-evidence, log Π_j p(x_j | chosen neighbours of j).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import FamilyScores
from svidag.mechanisms.wide import WideNetwork
from svidag.prior import EdgePrior
from svidag.problem import Problem
from svidag.scores import forward_selection

MOST_PARENTS = 8
"""Parents chosen for a node at most."""

SKETCH_FROM = 300
"""Rows from which a smaller network, asked first, saves time."""


@dataclass(frozen=True)
class Choice:
    """The mechanism, and by how much log pseudo-evidence it was preferred."""

    mechanism: str
    margin: float


@dataclass(frozen=True, eq=False)
class Integrated:
    """A mechanism with its parameters integrated out.

    Attributes
    ----------
    name
        ``"linear"`` or ``"nonlinear"``.
    scores
        The evidence of every node given any parents.
    sketch
        A smaller network whose evidences are asked first, where that saves time.
    margin
        By how much log evidence it was preferred, where it was chosen.
    """

    name: str
    scores: LinearGaussian | WideNetwork
    sketch: WideNetwork | None
    margin: float | None = None


def integrate(
    problem: Problem,
    mechanism: str,
    *,
    units: int,
    sketch_units: int,
    seed: int,
    notes: dict[str, Any],
) -> Integrated:
    """Build the mechanism of this name, or for ``"auto"`` the one that the evidence prefers.

    `notes` keeps the choice for a fit that is resumed.
    """
    choice = None
    if mechanism == "auto":
        if "choice" not in notes:
            notes["choice"] = dataclasses.asdict(_compare(problem, sketch_units, seed))
        choice = Choice(**notes["choice"])
        mechanism = choice.mechanism
    margin = None if choice is None else choice.margin
    data = problem.data
    if mechanism == "linear":
        model = LinearGaussian.from_values(data.values, data.intervened)
        return Integrated(mechanism, model, None, margin)
    expensive = len(data.values) >= SKETCH_FROM and sketch_units < units
    sketch = _network(problem, sketch_units, seed) if expensive else None
    return Integrated(mechanism, _network(problem, units, seed), sketch, margin)


def choose(candidates: dict[str, FamilyScores], prior: EdgePrior) -> Choice:
    """Prefer the mechanism with the largest pseudo-evidence; the first wins ties."""
    evidence = {name: pseudo_evidence(scores, prior) for name, scores in candidates.items()}
    best = max(evidence, key=lambda name: evidence[name])
    others = [value for name, value in evidence.items() if name != best]
    return Choice(best, evidence[best] - max(others))


def pseudo_evidence(scores: FamilyScores, prior: EdgePrior) -> float:
    """Σ_j log p(x_j | S_j) + log p(S_j) for greedily chosen S_j."""
    selected = forward_selection(scores, prior, most=MOST_PARENTS)
    odds = np.where(prior.free & selected, prior.logit, 0.0)
    families = scores.family_scores(np.arange(len(selected)), selected.T)
    return float(families.sum() + odds.sum())


def _compare(problem: Problem, units: int, seed: int) -> Choice:
    """Compare the network with its own linear part, so that only the hidden units differ.

    BGe's evidence does not compare: its prior on scales is another one, and that difference, some
    log evidence for each node, would decide.
    """
    candidates: dict[str, FamilyScores] = {
        "linear": _network(problem, 0, seed),
        "nonlinear": _network(problem, units, seed),
    }
    return choose(candidates, problem.prior)


def _network(problem: Problem, units: int, seed: int) -> WideNetwork:
    data = problem.data
    return WideNetwork.from_values(data.values, data.names, data.intervened, units=units, seed=seed)
