"""Candidate parents of each node, before any table is made.

Greedy forward selection finds, for every node, a set whose members help each other; it is made
symmetric (if i was selected for j, then j is a candidate of i), since the data may not yet say
which way an arrow points. Where knowledge closes one direction of a pair, effects select among
their causes and causes among their effects all the same: two parents that help only together are
often seen from their side alone. The best single gains fill what room is left.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.mechanisms.local import FamilyScores
from svidag.prior import EdgePrior
from svidag.scores.tables import TableSizeError


def screen(
    mechanism: FamilyScores, prior: EdgePrior, *, fewest: int, most: int
) -> list[Int[np.ndarray, " _"]]:
    """Choose between `fewest` and `most` candidates for each node, where so many are allowed.

    Required parents come first, then a node's own selection, then those that selected it, then
    the best single gains.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> from svidag.prior import Prior
    >>> x = np.random.default_rng(0).standard_normal((99, 3))
    >>> x[:, 2] += x[:, 0]
    >>> chosen = screen(LinearGaussian.from_values(x), Prior().bind("abc"), fewest=1, most=2)
    >>> [c.tolist() for c in chosen[::2]]
    [[2], [0]]
    """
    needed = prior.required.sum(axis=0).max()
    if needed > most:
        raise TableSizeError(f"a node has {needed} required parents; at most {most} candidates fit")
    selected, single = forward_selection(mechanism, prior, most=most)
    either = selected
    if (prior.free != prior.free.T).any():
        either = selected | forward_selection(mechanism, prior, most=most, either_way=True)[0]
    return [
        _ranked(j, selected, either, single, prior, fewest=fewest, most=most)
        for j in range(len(single))
    ]


def forward_selection(
    mechanism: FamilyScores, prior: EdgePrior, *, most: int, either_way: bool = False
) -> tuple[Bool[np.ndarray, "m m"], Float[np.ndarray, "m m"]]:
    """Add to each node the parent that gains most until none does; all nodes in step.

    Returns the selection, parents of j in column j, and the gain of each variable as the first
    parent beyond the required ones (−∞ where the pair is not open). With `either_way`, a pair is
    open both ways if it is open one way.
    """
    m = len(prior.names)
    free, logit = prior.free, prior.logit
    if either_way:
        free, logit = free | free.T, np.where(free, logit, logit.T)
    selected = prior.required.copy()
    everyone = np.arange(m)
    score = mechanism.family_scores(everyone, selected.T)
    single = np.full((m, m), -np.inf)
    active, first = everyone, True
    while len(active):
        gains = _gains(mechanism, free, logit, selected, score, active)
        if first:
            single, first = gains.copy(), False
        best = gains[:, active].argmax(axis=0)
        gain = gains[best, active]
        room = selected[:, active].sum(axis=0) < most
        active, best = active[(gain > 0) & room], best[(gain > 0) & room]
        selected[best, active] = True
        score[active] += gains[best, active] - logit[best, active]
    return selected, single


def _gains(mechanism, free, logit, selected, score, active) -> np.ndarray:
    """The gain of each further parent of each active node, prior odds included."""
    gains = np.full(selected.shape, -np.inf)
    is_active = np.isin(np.arange(len(score)), active)
    added, nodes = np.nonzero(free & ~selected & is_active)
    if len(nodes) == 0:
        return gains
    sets = selected.T[nodes]
    sets[np.arange(len(nodes)), added] = True
    found = mechanism.family_scores(nodes, sets)
    gains[added, nodes] = found - score[nodes] + logit[added, nodes]
    return gains


def _ranked(j, selected, either, single, prior, *, fewest, most) -> np.ndarray:
    """Candidates of j in order of precedence, cut to size."""
    tier = np.select(
        [prior.required[:, j], selected[:, j], either[j], np.isfinite(single[:, j])],
        [0, 1, 2, 3],
        default=4,
    )
    tier[~prior.allowed[:, j]] = 4
    order = np.lexsort((-single[:, j], tier))
    order = order[tier[order] < 4]
    wanted = int((tier < 3).sum())
    return order[: min(most, max(fewest, wanted))]
