"""Tables of parent sets for the chains over orders, and checks that no important set is missing.

Two independent halves search for parent sets and grow their own collections
(:mod:`svidag.search.growth`). Before they are joined, the share of sets that one half found and the
other did not is measured. After the chains, the tables are compared with a fresh search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from svidag.graph.extension import draw_linear_extensions
from svidag.run.streams import Stream, generator
from svidag.samplers.order_chains import OrderChains
from svidag.scores import ParentSets, ScoreTables, compute_shares, log_evidence
from svidag.scores.parent_sets import holds_all_sets, tabulate_all_sets
from svidag.search.growth import (
    COMPARABLE,
    HALVES,
    Grower,
    Half,
    Report,
    Round,
    measure_missing_share,
)

CHECKED_ORDERS = 100
"""Orders of the chains that are checked for parent sets outside the tables."""


@dataclass(frozen=True, eq=False)
class ParentSetTables:
    """Tables of parent sets, and diagnostics of the search that found them.

    Attributes
    ----------
    scores
        The weights of the parent sets, by node.
    sets
        All scored parent sets, from which the tables were made.
    starts
        Orders at which chains begin.
    rounds
        The rounds of growth.
    growth_ended
        Whether growth ended because no further set mattered.
    left_out
        The mean share of the scored sets that are left out of the tables, for the worst node.
    missed
        For each half, the share of its sets that the other half had not found.
    search_gaps
        By how many nats the log evidence of each search fell short of the best: for the halves,
        then for the searches after the chains.
    outside
        The share of parent sets, in orders of comparable weight, that the last search after the
        chains found and the tables lacked.
    fresh_searches
        Searches after the chains.
    """

    scores: ScoreTables
    sets: ParentSets
    starts: Int[np.ndarray, "K m"]
    rounds: tuple[Round, ...]
    growth_ended: bool
    left_out: float
    missed: tuple[float, ...]
    search_gaps: tuple[float, ...]
    outside: float = 0.0
    fresh_searches: int = 0

    @property
    def searches_agree(self) -> bool:
        """Whether two independent searches found orders of comparable weight."""
        return sum(gap <= COMPARABLE for gap in self.search_gaps) >= HALVES


def grow_halves(
    grower: Grower,
    *,
    report: Report,
    keep: Callable[[list[Half]], None],
    resumed: list[Half] | None = None,
) -> list[Half]:
    """Search for parent sets and grow the collections of both halves.

    `keep` is called with the halves after each round; `resumed` is what it last received in a run
    that was interrupted.
    """
    halves = resumed or grower.search(range(HALVES), grower.settings.searches, report)
    if resumed is None:
        keep(halves)
    while not all(map(grower.finished, halves)):
        halves = grower.run_rounds(halves)
        report("looking for parents", sum(len(half.sets) for half in halves), None)
        keep(halves)
    return halves


def join_halves(grower: Grower, halves: list[Half]) -> ParentSetTables:
    """Join the collections of both halves into tables, and measure what each half had missed."""
    pairs = zip(halves, reversed(halves), strict=True)
    lacking = tuple(measure_missing_share(own, other.sets) for own, other in pairs)
    sets = halves[0].sets.joined(halves[1].sets)
    weights = [log_evidence(sets, grower.prior, half.drawn).mean() for half in halves]
    drawn = np.concatenate([half.visited for half in halves])
    scores, left_out = grower.build_tables(sets, compute_shares(sets, drawn))
    return ParentSetTables(
        scores,
        sets,
        np.concatenate([half.orders[:, -1] for half in halves]),
        tuple(done for half in halves for done in half.rounds),
        all(grower.converged(half.rounds) for half in halves),
        float(left_out.max()),
        lacking,
        tuple(float(max(weights) - weight) for weight in weights),
    )


def list_all_sets(grower: Grower, report: Report) -> ParentSetTables | None:
    """Tables of all parent sets; None where they are too many.

    Chains begin at a good order from each half and, so that their agreement means more, at a
    random one.
    """
    scores = tabulate_all_sets(grower.mechanism)
    if scores is None:
        return None
    halves = grower.search(range(HALVES), grower.settings.searches, report)
    weights = [scores.log_evidence(half.drawn).max() for half in halves]
    rng = generator(grower.seed, Stream.CHAIN_STARTS, HALVES)
    random = draw_linear_extensions(grower.prior.required, HALVES, rng)
    starts = [(half.orders[:, -1], random[[k]]) for k, half in enumerate(halves)]
    return ParentSetTables(
        scores,
        halves[0].sets.joined(halves[1].sets),
        np.concatenate([order for pair in starts for order in pair]),
        rounds=(),
        growth_ended=True,
        left_out=0.0,
        missed=(0.0, 0.0),
        search_gaps=tuple(float(max(weights) - weight) for weight in weights),
    )


def search_outside_tables(
    grower: Grower, present: ParentSetTables, chains: OrderChains, report: Report
) -> tuple[ParentSetTables, ParentSetTables | None]:
    """Check the tables against a fresh search, and extend them if parent sets are missing.

    First the collection is extended by a round of growth at orders that the chains kept. Then a
    fresh search grows a collection of its own, for enough rounds to estimate the log evidence of
    its orders. The tables are extended if either finds a share above ``missing_share``, or if the
    fresh search reaches orders with much higher evidence than the chains. Returns the present
    tables with new diagnostics, and the extended tables or None.

    Tables that hold every parent set lack none; there only the order of the fresh search counts.
    """
    if holds_all_sets(present.scores, grower.prior):
        return _search_better_orders(grower, present, chains, report)
    step = max(1, chains.orders.shape[0] * chains.length // CHECKED_ORDERS)
    sets, done = grower.extend(
        present.sets, HALVES + present.fresh_searches, 1.0, chains.orders[:, ::step]
    )
    [fresh] = grower.search([HALVES + present.fresh_searches], 1, report)
    while not grower.finished(fresh) and len(fresh.rounds) <= len(grower.settings.powers):
        fresh = grower.run_round(fresh)
        report("searching once more", len(fresh.sets), None)
    both = sets.joined(fresh.sets)
    gap = float(chains.log_evidence.mean() - log_evidence(both, grower.prior, fresh.drawn).mean())
    lacking = measure_missing_share(fresh, present.sets) if gap < COMPARABLE else 0.0
    allowed = grower.settings.missing_share
    again = done.share > allowed or lacking > allowed or gap < -COMPARABLE
    checked = replace(
        present,
        rounds=(*present.rounds, done, *fresh.rounds),
        growth_ended=present.growth_ended and done.share <= allowed,
        search_gaps=(*(old + max(-gap, 0.0) for old in present.search_gaps), max(gap, 0.0)),
        outside=lacking,
        fresh_searches=present.fresh_searches + 1,
    )
    if not again:
        return checked, None
    drawn = np.concatenate([chains.orders.reshape(-1, both.m)[::step], fresh.visited])
    scores, left_out = grower.build_tables(both, compute_shares(both, drawn))
    started = np.repeat(fresh.orders[:, -1], len(chains.orders), axis=0)
    starts = np.concatenate([chains.replicas[:, -1], started])
    lost = float(left_out.max())
    grown = replace(checked, scores=scores, sets=both, starts=starts, left_out=lost)
    return checked, replace(grown, growth_ended=present.growth_ended)


def _search_better_orders(
    grower: Grower, present: ParentSetTables, chains: OrderChains, report: Report
) -> tuple[ParentSetTables, ParentSetTables | None]:
    """Compare the best order of a fresh search with the best that the chains kept."""
    [fresh] = grower.search([HALVES + present.fresh_searches], 1, report)
    best = present.scores.log_evidence(fresh.drawn).max()
    gap = float(chains.log_evidence.max() - best)
    checked = replace(
        present,
        search_gaps=(*(old + max(-gap, 0.0) for old in present.search_gaps), max(gap, 0.0)),
        outside=0.0,
        fresh_searches=present.fresh_searches + 1,
    )
    if gap >= -COMPARABLE:
        return checked, None
    started = np.repeat(fresh.orders[:, -1], len(chains.orders), axis=0)
    return checked, replace(checked, starts=np.concatenate([chains.replicas[:, -1], started]))


def chain_starts(starts: Int[np.ndarray, "K m"], chains: int) -> Int[np.ndarray, "chains m"]:
    """A starting order for each chain, taken alternately from the two halves.

    Examples
    --------
    >>> chain_starts(np.arange(4)[:, None], 3).ravel().tolist()
    [0, 2, 1]
    """
    turns = np.arange(len(starts)).reshape(HALVES, -1).T.ravel()
    return starts[turns[np.arange(chains) % len(starts)]]
