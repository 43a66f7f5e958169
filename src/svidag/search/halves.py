"""Tables of parent sets for the chains over orders, and whether anything is missing from them.

Two halves search and grow collections of their own (:mod:`svidag.search.growth`). What one half
holds and the other lacks is measured before they are joined, and after the chains a fresh search
is held against them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from svidag.samplers.order_chains import OrderChains
from svidag.scores import ParentSets, ScoreTables, evidence, shares
from svidag.search.growth import (
    COMPARABLE,
    HALVES,
    Grower,
    Half,
    Report,
    Round,
    missed,
    order_prior,
)

LOOKED_AT = 100
"""Orders of the chains at which parent sets outside the tables are looked for."""


@dataclass(frozen=True, eq=False)
class Tabulated:
    """Tables and how they came about.

    Attributes
    ----------
    tables
        The tables.
    sets
        The collection behind them.
    starts
        Orders at which chains begin.
    rounds
        The rounds of growth.
    settled
        Whether growth ended by itself.
    left_out
        The mean share of what tables leave out of the collection, of the node where it is largest.
    missed
        For each half, the share of what it holds that the other had not found.
    gaps
        By how many nats the orders of each search fell short of the best: of the halves, and then
        of the searches after the chains.
    outside
        The share that the last search after the chains held, in orders that carry weight, of sets
        that tables lacked.
    searched
        Searches after the chains.
    """

    tables: ScoreTables
    sets: ParentSets
    starts: Int[np.ndarray, "K m"]
    rounds: tuple[Round, ...]
    settled: bool
    left_out: float
    missed: tuple[float, ...]
    gaps: tuple[float, ...]
    outside: float = 0.0
    searched: int = 0

    @property
    def confirmed(self) -> bool:
        """Whether two independent searches came to orders of the same weight."""
        return sum(gap <= COMPARABLE for gap in self.gaps) >= HALVES


def grow_halves(
    grower: Grower,
    *,
    report: Report,
    keep: Callable[[list[Half]], None],
    begun: list[Half] | None = None,
) -> list[Half]:
    """Two collections, each from its own searches and chains.

    `keep` is given the halves after each round; `begun` is what it was given before a cut.
    """
    halves = begun or grower.search(range(HALVES), grower.settings.searches, report)
    if begun is None:
        keep(halves)
    while not all(map(grower.finished, halves)):
        halves = grower.advance_all(halves)
        report("looking for parents", sum(len(half.sets) for half in halves), None)
        keep(halves)
    return halves


def join(grower: Grower, halves: list[Half]) -> Tabulated:
    """Tables of what the halves found together, and what each had missed."""
    lacking = tuple(
        missed(own, other.sets) for own, other in zip(halves, reversed(halves), strict=True)
    )
    sets = halves[0].sets.joined(halves[1].sets)
    weights = [_log_evidence(grower, sets, half).mean() for half in halves]
    drawn = np.concatenate([half.visited for half in halves])
    tables, left_out = grower.tables(sets, shares(sets, drawn))
    return Tabulated(
        tables,
        sets,
        np.concatenate([half.orders[:, -1] for half in halves]),
        tuple(done for half in halves for done in half.rounds),
        all(grower.settled(half.rounds) for half in halves),
        float(left_out.max()),
        lacking,
        tuple(float(max(weights) - weight) for weight in weights),
    )


def look_outside(
    grower: Grower, made: Tabulated, chains: OrderChains, report: Report
) -> tuple[Tabulated, Tabulated | None]:
    """What was found outside the tables, and tables with it if it carries weight.

    Orders that the chains kept are looked at like those of a round of growth. And a fresh search
    grows a collection of its own, for as many rounds as it takes to say what its orders weigh:
    where they carry weight beside those of the chains and hold parent sets that the tables lack, or
    carry more than the chains ever saw, it is joined.
    """
    step = max(1, chains.orders.shape[0] * chains.length // LOOKED_AT)
    sets, done = grower.extend(made.sets, HALVES + made.searched, 1.0, chains.orders[:, ::step])
    [fresh] = grower.search([HALVES + made.searched], 1, report)
    while not grower.finished(fresh) and len(fresh.rounds) <= len(grower.settings.powers):
        fresh = grower.advance(fresh)
        report("searching once more", len(fresh.sets), None)
    both = sets.joined(fresh.sets)
    gap = float(chains.log_evidence.mean() - _log_evidence(grower, both, fresh).mean())
    lacking = missed(fresh, made.sets) if gap < COMPARABLE else 0.0
    allowed = grower.settings.missing
    again = done.share > allowed or lacking > allowed or gap < -COMPARABLE
    looked = replace(
        made,
        rounds=(*made.rounds, done, *fresh.rounds),
        settled=made.settled and done.share <= allowed,
        gaps=(*(old + max(-gap, 0.0) for old in made.gaps), max(gap, 0.0)),
        outside=lacking,
        searched=made.searched + 1,
    )
    if not again:
        return looked, None
    drawn = np.concatenate([chains.orders.reshape(-1, both.m)[::step], fresh.visited])
    tables, left_out = grower.tables(both, shares(both, drawn))
    started = np.repeat(fresh.orders[:, -1], len(chains.orders), axis=0)
    starts = np.concatenate([chains.replicas[:, -1], started])
    lost = float(left_out.max())
    grown = replace(looked, tables=tables, sets=both, starts=starts, left_out=lost)
    return looked, replace(grown, settled=made.settled)


def _log_evidence(grower: Grower, sets: ParentSets, half: Half) -> Float[np.ndarray, " K"]:
    """log p(D | order) of the orders of a half, by all sets of a collection."""
    return evidence(sets, half.drawn).sum(axis=1) + order_prior(grower.prior, half.drawn)


def chain_starts(starts: Int[np.ndarray, "K m"], chains: int) -> Int[np.ndarray, "chains m"]:
    """An order for each chain, taken from the two halves of the starts in turn.

    Examples
    --------
    >>> chain_starts(np.arange(4)[:, None], 3).ravel().tolist()
    [0, 2, 1]
    """
    turns = np.arange(len(starts)).reshape(HALVES, -1).T.ravel()
    return starts[turns[np.arange(chains) % len(starts)]]
