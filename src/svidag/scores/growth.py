"""Which parent sets enter the tables: those that no better subset makes negligible.

If w_j(T) < w_j(S) − slack for some S ⊂ T, then S is available wherever T is, and T is negligible
whatever the order. So a table grows from the smallest set upward: a set that is not negligible has
all its extensions by one candidate scored, a negligible one is not extended. The table ends, node
by node, where nothing presses any more; no limit on the number of parents is set beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from svidag.mechanisms.local import FamilyScores
from svidag.prior import EdgePrior
from svidag.scores.tables import NodeTable, split_bit, subset_maxima

Keep = Callable[[Sequence[NodeTable]], None]
"""Is given the tables after each round of scoring."""


def grow(
    mechanism: FamilyScores,
    prior: EdgePrior,
    nodes: Sequence[NodeTable],
    *,
    slack: float,
    sketch: bool = False,
    keep: Keep | None = None,
) -> list[NodeTable]:
    """Score every parent set that can matter among the candidates of each node.

    Parameters
    ----------
    mechanism
        Gives f_j(S).
    prior
        Open pairs contribute their log odds; required parents are in every set.
    nodes
        The tables so far, empty to begin with.
    slack
        How many nats below its best subset a set may fall and still be extended.
    sketch
        Whether the mechanism is a stand-in.
    keep
        Is given the tables after each round of scoring; from there, `grow` goes on as from the
        start.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> from svidag.prior import Prior
    >>> x = np.random.default_rng(0).standard_normal((50, 3))
    >>> blank = [NodeTable.empty(np.array(c)) for c in ([1, 2], [0, 2], [0, 1])]
    >>> full = grow(LinearGaussian.from_values(x), Prior().bind("abc"), blank, slack=20.0)
    >>> [int(np.isfinite(node.weights).sum()) for node in full]
    [4, 4, 4]
    """
    least = [_required_mask(prior, j, node.candidates) for j, node in enumerate(nodes)]
    while True:
        pending = [
            extensions(weights, slack) if np.isfinite(weights[mask]) else np.array([mask])
            for weights, mask in zip((node.weights for node in nodes), least, strict=True)
        ]
        if not any(map(len, pending)):
            return list(nodes)
        nodes = fill(mechanism, prior, nodes, pending, sketch=sketch)
        if keep is not None:
            keep(nodes)


def fill(
    mechanism: FamilyScores,
    prior: EdgePrior,
    nodes: Sequence[NodeTable],
    wanted: Sequence[Int[np.ndarray, " _"]],
    *,
    sketch: bool = False,
) -> list[NodeTable]:
    """Score the wanted masks of every node, in one call so that nodes share parent sets."""
    m = len(nodes)
    owners = np.repeat(np.arange(m), [len(masks) for masks in wanted])
    sets = np.concatenate(
        [node.members(masks, m) for node, masks in zip(nodes, wanted, strict=True)]
    )
    odds = np.where(prior.free, prior.logit, 0.0).T
    values = mechanism.family_scores(owners, sets) + (sets * odds[owners]).sum(axis=1)
    parts = np.split(values, np.cumsum([len(masks) for masks in wanted])[:-1])
    return [
        node.record(masks, part, sketch=sketch)
        for node, masks, part in zip(nodes, wanted, parts, strict=True)
    ]


def extensions(weights: Float[np.ndarray, " cells"], slack: float) -> Int[np.ndarray, " B"]:
    """The masks not yet scored that extend a set that is not negligible by one candidate."""
    scored = np.isfinite(weights)
    alive = scored & (weights >= subset_maxima(weights) - slack)
    wanted = np.zeros_like(alive)
    for b in range(len(weights).bit_length() - 1):
        without, _ = split_bit(alive, b)
        _, extended = split_bit(wanted, b)
        extended |= without
    return np.flatnonzero(wanted & ~scored)


def _required_mask(prior: EdgePrior, node: int, candidates: np.ndarray) -> int:
    if not prior.allowed[candidates, node].all():
        bad = candidates[~prior.allowed[candidates, node]][0]
        raise ValueError(f"candidate {bad} of node {node} is not allowed by the prior")
    needed = prior.required[candidates, node]
    missing = np.setdiff1d(np.flatnonzero(prior.required[:, node]), candidates)
    if len(missing):
        raise ValueError(f"required parent {missing[0]} of node {node} is not a candidate")
    return int((needed.astype(np.int64) << np.arange(len(candidates))).sum())
