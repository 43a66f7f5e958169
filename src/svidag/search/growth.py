"""Growing collections of parent sets, in rounds, until no new set has a notable share.

Independent searches find orders and the best parent sets in them
(:mod:`svidag.search.order_search`). In each round, short chains draw orders from the posterior
under the sets so far. Sets with a large share given these orders are expanded: their neighbours are
scored. Sets that only an approximation has scored (the *sketch*) are scored by the mechanism itself
if their share is large. Rounds end when the new sets together have a small share.

The searches are divided into two *halves* with separate collections: the sets that one half finds
and the other lacks show how much a search misses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Int

from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.prior import EdgePrior
from svidag.run import cores
from svidag.run.convergence import Agreement
from svidag.run.deadline import Deadline
from svidag.run.pools import Pool, Shared, Threads
from svidag.run.side_by_side import run_all
from svidag.run.streams import Stream, generator
from svidag.samplers.order_chains import Schedule, run_chains
from svidag.scores import (
    ParentSets,
    ScoreTables,
    Shares,
    Weigher,
    compute_shares,
    log_evidence,
    score_neighbours,
    sum_parent_sets,
)
from svidag.scores.parent_sets import build_tables
from svidag.search.batched_search import search_in_batches
from svidag.search.order_search import SearchResult, SearchStart, run_search
from svidag.search.sketch_checks import (
    best_graph,
    check_neighbours,
    reverse_arrows,
    score_both,
    unscored,
)

COMPARABLE = 5.0
"""Nats within which two orders count as having comparable weight."""

SLOWDOWN = 3  # factor on the sweeps, if searches end with different weights
MAX_SEARCH_WORK = 100_000  # sweeps times squared number of variables of a slower search
SPARSE = 0.4  # density up to which graphs are sparse: 0 is one parent per node, 1 is three
HALVES = 2
TRIAL_CHAINS = 0  # distinguishes the random streams of trial chains from those of the final chains
STREAMS_PER_HALF = 1000  # stream numbers reserved for the searches of one half
SKETCH_POWER, MECHANISM_POWER = 0.3, 0.5  # first powers of searches by the sketch and the mechanism
SEARCH_SHARE, GROWTH_SHARE = 0.3, 0.5  # shares of the time after which searches and growth end

Report = Callable[[str, int, int | None], None]
"""Called with the name of a stage, how much is done, and the total or None."""


@dataclass(frozen=True)
class GrowthSettings:
    """How parent sets are found.

    Attributes
    ----------
    searches
        Independent searches over orders in each half.
    search_sweeps
        Sweeps of a search by Gaussian blocks, from the flattest power to 1.
    cold_sweeps
        Sweeps that follow at the power 1, to find the best sets of nearby orders.
    mechanism_sweeps
        Sweeps that follow if the mechanism is not linear: by its approximation, and by itself.
        Applies to graphs with three parents per node or more; sparser graphs get fewer sweeps.
    add_within
        A neighbour is added if the estimate of its share is above exp(−add_within).
    expand_within
        A set whose share is above exp(−expand_within) in some order has its neighbours scored.
    stop_share
        Growth ends when the new sets of every node have at most this share on average.
    refine_within
        A sketched set whose share is above exp(−refine_within) is scored by the mechanism itself.
    sketched_share
        Refining ends when, for every node, sketched sets have at most this share.
    missing_share
        Share outside the tables, in comparable orders, that a fresh search may find without growth.
    candidate_share
        A variable may be left out of a node's table if its sets have a smaller share.
    omitted_share
        The share, on average over orders, of the sets that may be left out of a node's table: in
        general, and if leaving them out allows all its sums to be tabulated.
    trial_omitted_share
        The same for the tables of the chains that draw orders in each round.
    spare_share
        A table may have fewer candidates than usual if the sets with all others have at most this
        share; None: never. Tables of chains in the rounds, which know few orders, never have.
    capacity
        Parent sets of a node that a table lists at most, where sums are not tabulated.
    powers
        Powers of p(D | order) at which the first rounds draw their orders. An approximation may be
        wrong by many nats; rounds at a lower power also find sets that it underrates.
    flatter
        Each round draws further orders at this multiple of its power.
    nearby
        Nearby orders that are considered for each order that was drawn.
    rounds
        How many rounds at the power 1 there may be.
    fresh_searches
        How many searches may follow the chains.
    trial
        The chains that draw orders in each round.
    """

    searches: int = 1
    search_sweeps: int = 30
    cold_sweeps: int = 20
    mechanism_sweeps: tuple[int, int] = (6, 4)
    add_within: float = 7.0
    expand_within: float = 5.0
    stop_share: float = 0.02
    refine_within: float = 6.0
    sketched_share: float = 0.005
    candidate_share: float = 0.001
    omitted_share: tuple[float, float] = (0.001, 0.1)
    trial_omitted_share: tuple[float, float] = (0.1, 0.15)
    spare_share: float | None = None
    missing_share: float = 0.05
    capacity: int = 4000
    powers: tuple[float, ...] = (1.0,)
    flatter: float = 0.3
    nearby: int = 1
    rounds: int = 10
    fresh_searches: int = 2
    trial: Schedule = field(
        default_factory=lambda: Schedule(
            chains=2, burn_in=10, orders=15, thin=4, stopping_rule=Agreement(tolerance=0.0)
        )
    )


@dataclass(frozen=True)
class Round:
    """What one round of a half found.

    Attributes
    ----------
    half
        The number of the half; larger numbers are fresh searches after the chains.
    power
        The power of p(D | order) at which orders were drawn.
    added, refined
        Parent sets that were added, and sketched ones that the mechanism then scored.
    share
        The mean share of all new sets of a node, or of its sketched sets if that is larger, for
        the node where it is largest.
    """

    half: int
    power: float
    added: int
    refined: int
    share: float


@dataclass(frozen=True, eq=False)
class Half:
    """One half: its collection, the orders drawn last, and the rounds so far.

    Attributes
    ----------
    number
        Which half.
    sets
        The collection.
    orders
        Orders from the posterior.
    flatter
        Orders from a lower power of it. They lie between good orders, and chains can pass through
        them only if their parent sets are known.
    rounds
        What each round found.
    """

    number: int
    sets: ParentSets
    orders: Int[np.ndarray, "chains S m"]
    flatter: Int[np.ndarray, "chains K m"]
    rounds: tuple[Round, ...] = ()

    @property
    def drawn(self) -> Int[np.ndarray, "K m"]:
        """The orders from the posterior in one list."""
        return self.orders.reshape(-1, self.orders.shape[2])

    @property
    def visited(self) -> Int[np.ndarray, "K m"]:
        """Both kinds of orders in one list."""
        return np.concatenate([self.drawn, self.flatter.reshape(-1, self.orders.shape[2])])


@dataclass(frozen=True, eq=False)
class Grower:
    """Grows collections of parent sets; holds what stays the same from round to round.

    Attributes
    ----------
    mechanism
        Weights by the mechanism itself.
    sketch
        Weights by its approximation, if there is one.
    blocks
        The Gaussian model by which searches score.
    prior, settings, seed
        The prior, how to grow, and the seed.
    flattest
        The power at which searches begin.
    deadline
        When to end.
    pool
        Where searches run side by side.
    """

    mechanism: Weigher
    sketch: Weigher | None
    blocks: GaussianBlocks
    prior: EdgePrior
    settings: GrowthSettings
    seed: int
    flattest: float
    deadline: Deadline = field(default_factory=Deadline)
    pool: Pool = field(default_factory=Threads)

    @property
    def weigher(self) -> Weigher:
        """The approximation if there is one, else the mechanism."""
        return self.mechanism if self.sketch is None else self.sketch

    def search(self, halves: Sequence[int], searches: int, report: Report) -> list[Half]:
        """Run this many searches for each of the halves."""
        numbers = [half * STREAMS_PER_HALF + k for half in halves for k in range(searches)]
        results = self._search_longer(numbers, report)
        if self.blocks.model is None:
            results = self._search_mechanism(numbers, results, report)
        everyone = np.arange(len(self.prior.names))
        found = []
        for at, half in enumerate(halves):
            own = results[at * searches : (at + 1) * searches]
            nodes = np.concatenate([everyone, *(result.nodes for result in own)])
            parents = np.concatenate([self.prior.required.T, *(result.parents for result in own)])
            unknown = np.full(len(everyone), np.nan)
            exact = np.concatenate([unknown, *(result.exact for result in own)])
            orders = np.stack([result.order for result in own])[:, None]
            sets = self.score(ParentSets.of(nodes, parents, exact=exact))
            found.append(Half(half, sets, orders, orders[:, :0]))
        return found

    def _search_longer(self, numbers: list[int], report: Report) -> list[SearchResult]:
        """Searches by Gaussian blocks, repeated with more sweeps while their weights differ."""
        sweeps = self.settings.search_sweeps
        results = self._search_blocks(numbers, sweeps, report)
        while np.ptp([result.log_weight for result in results]) > COMPARABLE:
            sweeps *= SLOWDOWN
            too_long = sweeps * len(self.prior.names) ** 2 > MAX_SEARCH_WORK
            if too_long or self.deadline.passed(SEARCH_SHARE):
                break
            slower = self._search_blocks(numbers, sweeps, report)
            pairs = zip(results, slower, strict=True)
            results = [max(pair, key=lambda result: result.log_weight) for pair in pairs]
        return results

    def _search_blocks(self, numbers: list[int], sweeps: int, report: Report) -> list[SearchResult]:
        """Searches by Gaussian blocks, as many at once as there are workers."""
        cooling = np.geomspace(self.flattest, 1.0, sweeps)
        powers = np.concatenate([cooling, np.ones(self.settings.cold_sweeps)])
        streams = [generator(self.seed, Stream.SEARCHES, number, sweeps) for number in numbers]
        return run_all(
            run_search,
            [SearchStart(powers, rng) for rng in streams],
            pool=self.pool,
            shared=self._shared,
            report=lambda done: report("searching orders", done, len(numbers)),
        )

    @cached_property
    def _shared(self) -> Shared:
        return Shared((self.blocks, self.prior))

    def _search_mechanism(
        self,
        numbers: list[int],
        results: list[SearchResult],
        report: Report,
    ) -> list[SearchResult]:
        """Continue searches with the approximation, if there is one, and then the mechanism."""
        # In sparse graphs the parent sets determine the order; in dense graphs many orders have
        # similar weights, so the mechanism itself is used as well.
        dense = float(np.clip((np.mean([result.density for result in results]) - 1) / 2, 0, 1))
        cheap, own = (round(dense * s) for s in self.settings.mechanism_sweeps)
        cheap, own = max(1, cheap), own if dense > SPARSE or self.sketch is None else 0
        weigh, powers = (self.mechanism.weigh,), (np.geomspace(SKETCH_POWER, 1.0, cheap),)
        if self.sketch is not None:
            weigh = (self.sketch.weigh, *weigh)
            powers = (*powers, np.geomspace(MECHANISM_POWER, 1.0, own))
        total = sum(map(len, powers))
        return search_in_batches(
            weigh,
            self.prior,
            np.stack([result.order for result in results]),
            powers=powers,
            rng=generator(self.seed, Stream.SEARCHES_BY_MECHANISM, *numbers),
            stop=lambda: self.deadline.passed(SEARCH_SHARE),
            report=lambda sweeps: report("searching with the mechanism", sweeps, total),
        )

    def score(self, sets: ParentSets) -> ParentSets:
        """The same sets with weights by the cheapest scores."""
        weights = self.weigher.weigh(sets.nodes, sets.parents())
        return replace(sets, **{"exact" if self.sketch is None else "sketch": weights})

    def build_tables(
        self, sets: ParentSets, shares: Shares, *, trial: bool = False
    ) -> tuple[ScoreTables, np.ndarray]:
        """Tables of a collection, and the share of the sets left out for each node."""
        s = self.settings
        omitted_share = s.trial_omitted_share if trial else s.omitted_share
        return build_tables(
            sets,
            shares,
            self.mechanism,
            candidate_share=s.candidate_share,
            omitted_share=omitted_share,
            spare_share=None if trial else s.spare_share,
            capacity=s.capacity,
        )

    def finished(self, half: Half) -> bool:
        """Whether there will be no further round."""
        s = self.settings
        most = s.rounds + len(s.powers) - 1
        spent = len(half.rounds) >= most or self.deadline.passed(GROWTH_SHARE)
        return spent or self.converged(half.rounds)

    def converged(self, rounds: tuple[Round, ...]) -> bool:
        """Whether the sets that the last round found have a small share."""
        last = rounds[-1] if rounds else None
        return last is not None and last.power == 1.0 and last.share <= self.settings.stop_share

    def run_rounds(self, halves: Sequence[Half]) -> list[Half]:
        """Run one more round for each half that is not finished."""
        growing = [at for at, half in enumerate(halves) if not self.finished(half)]
        # Networks use all cores already, and their cache is not safe to share between threads.
        if self.blocks.model is None or len(growing) == 1 or cores.usable() == 1:
            grown = [self.run_round(halves[at]) for at in growing]
        else:
            # In threads: a round takes a second or two, and what it needs is too large to be sent.
            grown = run_all(
                lambda grower, half, alive: grower.run_round(half),
                [halves[at] for at in growing],
                pool=Threads(),
                shared=Shared(self),
            )
        rounds = dict(zip(growing, grown, strict=True))
        return [rounds.get(at, half) for at, half in enumerate(halves)]

    def run_round(self, half: Half) -> Half:
        """Run one more round of a half."""
        s, number = self.settings, len(half.rounds)
        power = s.powers[min(number, len(s.powers) - 1)]
        starts = half.orders[:, -1]
        schedule = replace(s.trial, power=power, chains=len(starts))
        shares = compute_shares(half.sets, half.visited)
        tables, _ = self.build_tables(half.sets, shares, trial=True)
        drawn, flatter = (
            run_chains(
                tables,
                self.prior,
                replace(schedule, power=p),
                seed=self.seed,
                parts=(TRIAL_CHAINS, half.number, number, turn),
                starts=starts,
            ).orders
            for turn, p in enumerate((power, power * s.flatter))
        )
        visited = np.concatenate([drawn, flatter], axis=1)
        sets, done = self.extend(half.sets, half.number, power, visited)
        grown = Half(half.number, sets, drawn, flatter, (*half.rounds, done))
        if self.sketch is not None and self.converged(grown.rounds):
            return self._check_reversals(grown)
        return grown

    def extend(
        self, sets: ParentSets, half: int, power: float, orders: Int[np.ndarray, "chains S m"]
    ) -> tuple[ParentSets, Round]:
        """Score the neighbours of the sets with a large share in these orders."""
        rng = generator(self.seed, Stream.NEARBY_ORDERS, half, len(sets))
        drawn = self.add_nearby_orders(sets, orders.reshape(-1, sets.m), rng)
        shares = compute_shares(sets, drawn, least=self.settings.expand_within)
        refined, sketched = 0, 0.0
        if self.sketch is not None:
            sets, refined, sketched = self._refine(sets, shares)
            if refined:
                shares = compute_shares(sets, drawn, least=self.settings.expand_within)
        rows = np.flatnonzero((shares.log_peak > -self.settings.expand_within) & ~sets.expanded)
        new, share = score_neighbours(
            sets,
            rows,
            shares,
            self.weigher,
            within=self.settings.add_within,
            sketch=self.sketch is not None,
        )
        expanded = sets.expanded.copy()
        expanded[rows] = True
        worst = float(np.bincount(new.nodes, np.exp(share), sets.m).max())
        sets = replace(sets, expanded=expanded).joined(new)
        if self.sketch is not None and power == 1.0:
            shares = compute_shares(sets, drawn, least=self.settings.expand_within)
            sets, checked, share = check_neighbours(sets, shares, self.mechanism, self.weigher)
            refined, worst = refined + checked, max(worst, share)
        return sets, Round(half, power, len(new), refined, max(worst, sketched))

    def _check_reversals(self, half: Half) -> Half:
        """Reverse arrows of the best graph by the mechanism; continue from there if that gains."""
        drawn = half.drawn
        best = drawn[log_evidence(half.sets, self.prior, drawn).argmax()]
        found = reverse_arrows(best_graph(half.sets, best), self.mechanism)
        new = ParentSets.of(found.nodes, found.parents)
        new = score_both(unscored(new, half.sets), self.mechanism, self.weigher)
        orders = half.orders.copy()
        if found.gain > 0:
            orders[:, -1] = found.order
        last = half.rounds[-1]
        better = found.gain > 0 or (found.gain > -self.settings.add_within and len(new) > 0)
        share = max(last.share, float(np.exp(min(found.gain, 0.0))) if better else 0.0)
        last = replace(last, added=last.added + len(new), share=share)
        rounds = (*half.rounds[:-1], last)
        return replace(half, sets=half.sets.joined(new), orders=orders, rounds=rounds)

    def add_nearby_orders(
        self, sets: ParentSets, orders: Int[np.ndarray, "S m"], rng: np.random.Generator
    ) -> Int[np.ndarray, "K m"]:
        """The orders, and nearby orders: one node moved, and not much lower evidence.

        Chains can move through nearby orders only if their parent sets are known.
        """
        moved = np.repeat(orders, self.settings.nearby, axis=0)
        for order in moved:
            here, there = rng.integers(sets.m, size=2)
            node = order[here]
            order[:] = np.insert(np.delete(order, here), there, node)
        cause, effect = np.nonzero(self.prior.required)
        rank = np.argsort(moved, axis=1)
        moved = moved[(rank[:, cause] < rank[:, effect]).all(axis=1)]
        usual = log_evidence(sets, self.prior, orders).mean()
        near = log_evidence(sets, self.prior, moved) > usual - self.settings.add_within
        return np.concatenate([orders, moved[near]])

    def _refine(self, sets: ParentSets, shares: Shares) -> tuple[ParentSets, int, float]:
        """Score by the mechanism the sketched sets with a large share.

        Returns the collection, how many sets were scored, and the share of all sketched sets
        before, for the worst node.
        """
        open_rows = np.isnan(sets.exact)
        share = float(np.bincount(sets.nodes[open_rows], shares.mean[open_rows], sets.m).max())
        if share <= self.settings.sketched_share:
            return sets, 0, share
        ranked = np.lexsort((shares.mean, sets.nodes))
        left = np.cumsum(np.where(open_rows, shares.mean, 0.0)[ranked])
        begins = np.searchsorted(sets.nodes[ranked], sets.nodes[ranked])
        left -= (left - np.where(open_rows, shares.mean, 0.0)[ranked])[begins]
        rest = np.empty(len(sets))
        rest[ranked] = left  # the share of this set and all sets of its node with smaller shares
        wanted = (shares.log_peak > -self.settings.refine_within) | (
            rest > self.settings.sketched_share
        )
        rows = np.flatnonzero(open_rows & wanted)
        exact = sets.exact.copy()
        exact[rows] = self.mechanism.weigh(sets.nodes[rows], sets.parents(rows))
        return replace(sets, exact=exact), len(rows), share


def measure_missing_share(own: Half, other: ParentSets) -> float:
    """The mean share, given the orders of a half, of sets that another collection lacks.

    Returns the largest value over nodes.
    """
    both = own.sets.joined(other)
    known = other.rows_of(both) >= 0
    part = sum_parent_sets(both, own.drawn, among=known) - sum_parent_sets(both, own.drawn)
    lacking = -np.expm1(part)
    return float(np.clip(lacking.mean(axis=0).max(), 0.0, 1.0))
