"""Which parent sets enter the tables: those that no better subset makes negligible.

If w_j(T) < w_j(S) − slack for some S ⊂ T, then S is available wherever T is, and T is negligible
whatever the order. So a table grows from the smallest set upward: a set that is not negligible has
all its extensions by one candidate scored, a negligible one is not extended. The table ends, node
by node, where nothing presses any more; no limit on the number of parents is set beforehand.
Candidates that were screened out come back when a graph drawn from the posterior would gain from
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from svidag.prior import EdgePrior
from svidag.scores.tables import FamilyScores, ScoreTables, split_bit, subset_maxima

Report = Callable[[int], None]


def tabulate(
    mechanism: FamilyScores,
    prior: EdgePrior,
    candidates: Sequence[Int[np.ndarray, " _"]],
    *,
    slack: float,
    start: ScoreTables | None = None,
    report: Report | None = None,
) -> ScoreTables:
    """Score every parent set that can matter among the candidates of each node.

    Parameters
    ----------
    mechanism
        Gives f_j(S).
    prior
        Open pairs contribute their log odds; required parents are in every set.
    candidates
        For each node, the variables that may be its parents, all required ones among them.
    slack
        How many nats below its best subset a set may fall and still be extended.
    start
        Tables to continue: each node's candidates must begin with those it has there.
    report
        Is told the number of scored pairs of a node and a set, round by round.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> from svidag.prior import Prior
    >>> x = np.random.default_rng(0).standard_normal((50, 3))
    >>> everyone = [np.array([1, 2]), np.array([0, 2]), np.array([0, 1])]
    >>> tables = tabulate(
    ...     LinearGaussian.from_values(x), Prior().bind("abc"), everyone, slack=20.0
    ... )
    >>> tables.scored
    12
    """
    weights = [_begin(prior, j, chosen, start) for j, chosen in enumerate(candidates)]
    least = [_required_mask(prior, j, chosen) for j, chosen in enumerate(candidates)]

    def unscored() -> list[np.ndarray]:
        return [
            extensions(table, slack) if np.isfinite(table[mask]) else np.array([mask])
            for table, mask in zip(weights, least, strict=True)
        ]

    pending = unscored()
    while any(len(masks) for masks in pending):
        found = _weigh(mechanism, prior, candidates, pending)
        for table, masks, values in zip(weights, pending, found, strict=True):
            table[masks] = values
        if report is not None:
            report(int(sum(np.isfinite(table).sum() for table in weights)))
        pending = unscored()
    return ScoreTables.assemble(candidates, weights, prior)


def extensions(table: Float[np.ndarray, " cells"], slack: float) -> Int[np.ndarray, " B"]:
    """The masks not yet scored that extend a set that is not negligible by one candidate."""
    scored = np.isfinite(table)
    alive = scored & (table >= subset_maxima(table) - slack)
    wanted = np.zeros_like(alive)
    for b in range(len(table).bit_length() - 1):
        without, _ = split_bit(alive, b)
        _, extended = split_bit(wanted, b)
        extended |= without
    return np.flatnonzero(wanted & ~scored)


def pressing(
    mechanism: FamilyScores,
    prior: EdgePrior,
    tables: ScoreTables,
    graphs: UInt8[np.ndarray, "S m m"],
    orders: Int[np.ndarray, "S m"],
    *,
    gain: float,
) -> Float[np.ndarray, "m m"]:
    """What adding i, no candidate of j, to j's parents in a drawn graph gains, if above `gain`.

    The best over the distinct parent sets of j among the draws, in nats with the prior's odds; −∞
    where nothing reaches `gain`. Only variables that precede j in the draw's order are tried.
    """
    nodes, sets, added = _outside(prior, tables, graphs, orders)
    if len(nodes) == 0:
        return np.full(prior.allowed.shape, -np.inf)
    extended = sets.copy()
    extended[np.arange(len(nodes)), added] = True
    difference = mechanism.family_scores(nodes, extended) + prior.logit[added, nodes]
    difference -= mechanism.family_scores(nodes, sets)
    best = np.full(prior.allowed.shape, -np.inf)
    np.maximum.at(best, (added, nodes), difference)
    return np.where(best > gain, best, -np.inf)


def _begin(prior, node, chosen, start) -> np.ndarray:
    """An empty table, or the earlier one below the cells of the new candidates."""
    _check(prior, node, chosen)
    table = np.full(1 << len(chosen), -np.inf)
    if start is not None:
        old = start.candidates[node]
        if not np.array_equal(old, chosen[: len(old)]):
            raise ValueError(f"the new candidates of node {node} do not begin with the old ones")
        table[: 1 << len(old)] = start.table(node)
    return table


def _check(prior: EdgePrior, node: int, chosen: np.ndarray) -> None:
    if not prior.allowed[chosen, node].all():
        bad = chosen[~prior.allowed[chosen, node]][0]
        raise ValueError(f"candidate {bad} of node {node} is not allowed by the prior")
    missing = np.setdiff1d(np.flatnonzero(prior.required[:, node]), chosen)
    if len(missing):
        raise ValueError(f"required parent {missing[0]} of node {node} is not a candidate")


def _required_mask(prior: EdgePrior, node: int, chosen: np.ndarray) -> int:
    return int((prior.required[chosen, node].astype(np.int64) << np.arange(len(chosen))).sum())


def _weigh(mechanism, prior, candidates, pending) -> list[np.ndarray]:
    """w_j(S) of the pending masks of every node, in one call so that nodes share parent sets."""
    m = len(candidates)
    nodes = np.repeat(np.arange(m), [len(masks) for masks in pending])
    sets = np.zeros((len(nodes), m), dtype=bool)
    ends = np.cumsum([len(masks) for masks in pending])
    for j, masks in enumerate(pending):
        members = masks[:, None] >> np.arange(len(candidates[j])) & 1
        sets[ends[j] - len(masks) : ends[j], candidates[j]] = members == 1
    odds = np.where(prior.free, prior.logit, 0.0)
    values = mechanism.family_scores(nodes, sets) + np.einsum("bm,mb->b", sets, odds[:, nodes])
    return np.split(values, ends[:-1])


def _outside(prior, tables, graphs, orders):
    """Distinct (node, parent set, outside predecessor) among the draws."""
    m = tables.m
    rank = np.argsort(orders, axis=1)
    candidate = tables.bits > 0
    nodes, sets, added = [], [], []
    for j in range(m):
        free = prior.free[:, j] & ~candidate[:, j]
        before = (rank < rank[:, j : j + 1]) & free
        distinct, which = np.unique(graphs[:, :, j].astype(bool), axis=0, return_inverse=True)
        for s, parents in enumerate(distinct):
            i = np.flatnonzero(before[which.reshape(-1) == s].any(axis=0))
            nodes.append(np.full(len(i), j))
            sets.append(np.repeat(parents[None], len(i), axis=0))
            added.append(i)
    return np.concatenate(nodes), np.concatenate(sets), np.concatenate(added)
