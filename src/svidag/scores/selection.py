"""Greedy forward selection of the parents of every node, without regard to cycles."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from svidag.mechanisms.local import FamilyScores
from svidag.prior import EdgePrior

CELLS_AT_ONCE = 2**28
"""Cells of the parent sets that are scored together: a quarter of a gigabyte. Up to 645 variables
all sets are."""


def forward_selection(
    mechanism: FamilyScores, prior: EdgePrior, *, most: int
) -> Bool[np.ndarray, "m m"]:
    """Add to each node the parent with the largest gain, until no addition gains anything.

    All nodes are extended at the same time.

    Returns the selection, parents of j in column j.
    """
    selected = prior.required.copy()
    active = np.arange(len(prior.names))
    score = mechanism.family_scores(active, selected.T)
    while len(active):
        gains = _gains(mechanism, prior, selected, score, active)
        best = gains[:, active].argmax(axis=0)
        gain = gains[best, active]
        room = selected[:, active].sum(axis=0) < most
        active, best = active[(gain > 0) & room], best[(gain > 0) & room]
        selected[best, active] = True
        score[active] += gains[best, active] - prior.logit[best, active]
    return selected


def _gains(mechanism, prior, selected, score, active) -> np.ndarray:
    """The gain of each further parent of each active node, prior odds included."""
    gains = np.full(selected.shape, -np.inf)
    logit = prior.logit
    step = max(1, CELLS_AT_ONCE // len(score) ** 2)
    for start in range(0, len(active), step):
        asked = np.isin(np.arange(len(score)), active[start : start + step])
        added, nodes = np.nonzero(prior.free & ~selected & asked)
        if len(nodes) == 0:
            continue
        sets = selected.T[nodes]
        sets[np.arange(len(nodes)), added] = True
        found = mechanism.family_scores(nodes, sets)
        gains[added, nodes] = found - score[nodes] + logit[added, nodes]
    return gains
