"""`mechanism="auto"`: linear or nonlinear, by the evidence of each node given what explains it.

Both mechanisms give normalised densities of the same rows, so their logarithms compare. For each
node the parents are chosen greedily, by that mechanism's own evidence and the prior's odds, without
regard to cycles: the sum over nodes is a pseudo-evidence, log Π_j p(x_j | chosen neighbours of j).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from svidag.mechanisms.local import FamilyScores
from svidag.prior import EdgePrior
from svidag.scores import forward_selection

MOST_PARENTS = 8


@dataclass(frozen=True)
class Choice:
    """The mechanism, and by how many nats of pseudo-evidence it was preferred."""

    mechanism: str
    margin: float


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
