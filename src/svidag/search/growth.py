"""Collections of parent sets that grow where chains over orders ask for more.

Independent searches find orders and the parent sets that were best in them
(:mod:`svidag.search.order_search`). Short chains then draw orders from the posterior under the
sets so far; a set that holds a share there has its neighbours looked at, and where a stand-in
scored first, the mechanism itself scores what holds a share. That goes on until nothing new does.

*Halves* of the searches keep collections of their own: what one half finds and the other lacks
tells how much a search misses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float, Int

from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.prior import EdgePrior
from svidag.run import cores
from svidag.run.convergence import Agreement
from svidag.run.deadline import Deadline
from svidag.run.streams import Stream, generator
from svidag.samplers.order_chains import Schedule, run_chains
from svidag.scores import ParentSets, ScoreTables, Shares, Weigher, evidence, neighbours, shares
from svidag.scores import parent_sets as collections
from svidag.search.batched_search import search_in_batches
from svidag.search.order_search import SearchResult, search_orders

COMPARABLE = 5.0
"""Nats within which two orders both carry weight."""

SLOWER = 3  # times as many sweeps, where searches end further apart
MOST_SEARCHED = 100_000  # sweeps times squared variables of a search that goes slower
SPARSE = 0.4  # on a scale from one parent a node (0) to three (1)
LARGE = 2.0  # nats below the whole from which a set's share is large
MANY_PARENTS = 4  # parents from which a stand-in is not trusted
HALVES = 2
TRIAL = 0  # tells the streams of trial chains from those of the chains themselves
SPACING = 1000  # numbers set aside for the searches of one half
FIRST_POWER, SECOND_POWER = 0.3, 0.5  # at which searches by a stand-in and a mechanism begin
SEARCH_SHARE, GROWTH_SHARE = 0.3, 0.5  # of the time, by when searches and growth must end

Report = Callable[[str, int, int | None], None]
"""Is given the name of a stage, how much of it is done, and of how much if that is known."""


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
        Sweeps that follow at the power 1, to come upon the best sets of orders nearby.
    mechanism_sweeps
        Sweeps that follow where these are not the mechanism, by the stand-in and by itself, if the
        graphs found have three parents a node or more; fewer if they have fewer.
    reach
        A neighbour joins the collection if its share could be above exp(−reach).
    expand
        A set whose share is above exp(−expand) in some order has its neighbours looked at.
    enough
        Growth ends when the new sets of no node together could hold more than this share, on
        average over orders.
    refine
        A sketched set whose share is above exp(−refine) is scored by the mechanism itself.
    sketched
        Refining ends when sketched sets hold no more than this share of any node.
    missing
        The share of parent sets, in orders that carry weight, that a fresh search may find outside
        the tables without more growth.
    cut
        A variable whose sets hold a smaller share may be left out of a node's table for speed.
    spared
        The share that the sets of all variables left out of a node's table may hold together, on
        average over orders: in general, and where leaving them out keeps its sums laid out.
    trial_spared
        The same for the tables of the chains that draw orders in each round.
    capacity
        Parent sets of a node that a table lists at most, where they are not laid out.
    powers
        Powers of p(D | order) at which the first rounds draw their orders. A stand-in may be wrong
        by many nats; flatter rounds keep it from hiding what it underrates.
    flatter
        The part of that power at which each round draws further orders.
    nearby
        Orders nearby that are looked at for each order that was drawn.
    rounds
        How many rounds at the power 1 there may be.
    trial
        The chains that draw orders in each round.
    """

    searches: int = 1
    search_sweeps: int = 30
    cold_sweeps: int = 20
    mechanism_sweeps: tuple[int, int] = (6, 4)
    reach: float = 7.0
    expand: float = 5.0
    enough: float = 0.02
    refine: float = 6.0
    sketched: float = 0.005
    cut: float = 0.001
    spared: tuple[float, float] = (0.001, 0.1)
    trial_spared: tuple[float, float] = (0.1, 0.15)
    missing: float = 0.05
    capacity: int = 4000
    powers: tuple[float, ...] = (1.0,)
    flatter: float = 0.3
    nearby: int = 1
    rounds: int = 10
    trial: Schedule = field(
        default_factory=lambda: Schedule(
            chains=2, burn_in=10, orders=15, thin=4, enough=Agreement(tolerance=0.0)
        )
    )


@dataclass(frozen=True)
class Round:
    """What one round of a half found.

    Attributes
    ----------
    half
        Which half; beyond the first two, which restart.
    power
        The power of p(D | order) at which orders were drawn.
    added, refined
        Parent sets that joined, and those that the mechanism scored after its stand-in.
    share
        What the new sets of a node could together hold on average, or those that were only
        sketched, of the node where it is largest.
    """

    half: int
    power: float
    added: int
    refined: int
    share: float


@dataclass(frozen=True, eq=False)
class Half:
    """A collection, the orders that were last drawn under it, and the rounds behind it.

    Attributes
    ----------
    number
        Which half.
    sets
        The collection.
    orders
        Orders from the posterior.
    flatter
        Orders from a lower power of it: between good orders lie others, and chains that do not
        know their parent sets cannot pass.
    rounds
        What the rounds so far found.
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
    """What stays the same from round to round.

    Attributes
    ----------
    exactly
        Weights by the mechanism.
    sketch
        Weights by its stand-in, if there is one.
    blocks
        What searches score by.
    prior, settings, seed
        The prior, how to grow, and the seed.
    flattest
        The power at which searches begin.
    deadline
        When to end.
    """

    exactly: Weigher
    sketch: Weigher | None
    blocks: GaussianBlocks
    prior: EdgePrior
    settings: GrowthSettings
    seed: int
    flattest: float
    deadline: Deadline = field(default_factory=Deadline)

    @property
    def weigher(self) -> Weigher:
        """The cheapest way to weights."""
        return self.exactly if self.sketch is None else self.sketch

    def search(self, halves: Sequence[int], searches: int, report: Report) -> list[Half]:
        """So many searches for each of the halves."""
        numbers = [half * SPACING + k for half in halves for k in range(searches)]
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
            sets = self.scored(ParentSets.of(nodes, parents, exact=exact))
            found.append(Half(half, sets, orders, orders[:, :0]))
        return found

    def _search_longer(self, numbers: list[int], report: Report) -> list[SearchResult]:
        """Searches by Gaussian blocks, and slower ones while they end at different heights."""
        sweeps = self.settings.search_sweeps
        results = self._search_blocks(numbers, sweeps, report)
        while np.ptp([result.log_weight for result in results]) > COMPARABLE:
            sweeps *= SLOWER
            too_long = sweeps * len(self.prior.names) ** 2 > MOST_SEARCHED
            if too_long or self.deadline.passed(SEARCH_SHARE):
                break
            slower = self._search_blocks(numbers, sweeps, report)
            pairs = zip(results, slower, strict=True)
            results = [max(pair, key=lambda result: result.log_weight) for pair in pairs]
        return results

    def _search_blocks(self, numbers: list[int], sweeps: int, report: Report) -> list[SearchResult]:
        """Searches by Gaussian blocks, as many at once as there are cores."""
        cooling = np.geomspace(self.flattest, 1.0, sweeps)
        powers = np.concatenate([cooling, np.ones(self.settings.cold_sweeps)])
        done: list[int] = []

        def single(number: int) -> SearchResult:
            rng = generator(self.seed, Stream.SEARCHES, number, sweeps)
            found = search_orders(self.blocks, self.prior, powers=powers, rng=rng)
            done.append(number)
            report("searching orders", len(done), len(numbers))
            return found

        with ThreadPoolExecutor(cores.usable()) as pool:
            return list(pool.map(single, numbers))

    def _search_mechanism(
        self,
        numbers: list[int],
        results: list[SearchResult],
        report: Report,
    ) -> list[SearchResult]:
        """Go on from there with the stand-in, if there is one, and then the mechanism itself."""
        # In sparse graphs parents tell their order; in dense ones one order hides another, and the
        # mechanism itself is asked.
        dense = float(np.clip((np.mean([result.density for result in results]) - 1) / 2, 0, 1))
        cheap, own = (round(dense * s) for s in self.settings.mechanism_sweeps)
        cheap, own = max(1, cheap), own if dense > SPARSE or self.sketch is None else 0
        weigh, powers = (self.exactly.weigh,), (np.geomspace(FIRST_POWER, 1.0, cheap),)
        if self.sketch is not None:
            weigh = (self.sketch.weigh, *weigh)
            powers = (*powers, np.geomspace(SECOND_POWER, 1.0, own))
        total = sum(map(len, powers))
        return search_in_batches(
            weigh,
            self.prior,
            np.stack([result.order for result in results]),
            powers=powers,
            rng=generator(self.seed, Stream.SEARCHES_BY_MECHANISM, *numbers),
            stop=lambda: self.deadline.passed(SEARCH_SHARE),
            report=lambda sweeps: report("searching with networks", sweeps, total),
        )

    def scored(self, sets: ParentSets) -> ParentSets:
        """The same sets with weights."""
        weights = self.weigher.weigh(sets.nodes, sets.parents())
        return replace(sets, **{"exact" if self.sketch is None else "sketch": weights})

    def tables(
        self, sets: ParentSets, held: Shares, *, trial: bool = False
    ) -> tuple[ScoreTables, np.ndarray]:
        """Tables of a collection, and what share of each node they leave out."""
        s = self.settings
        spared = s.trial_spared if trial else s.spared
        return collections.tables(
            sets, held, self.exactly, cut=s.cut, spared=spared, capacity=s.capacity
        )

    def finished(self, half: Half) -> bool:
        """Whether there will be no further round."""
        s = self.settings
        most = s.rounds + len(s.powers) - 1
        spent = len(half.rounds) >= most or self.deadline.passed(GROWTH_SHARE)
        return spent or self.settled(half.rounds)

    def settled(self, rounds: tuple[Round, ...]) -> bool:
        """Whether the last round found nothing new that holds a share."""
        last = rounds[-1] if rounds else None
        return last is not None and last.power == 1.0 and last.share <= self.settings.enough

    def advance_all(self, halves: Sequence[Half]) -> list[Half]:
        """One more round for each half that is not finished."""

        def next_of(half: Half) -> Half:
            return half if self.finished(half) else self.advance(half)

        # Networks score on all cores at once as it is, and what they remember is in one place.
        together = cores.usable() if self.blocks.model is not None else 1
        with ThreadPoolExecutor(together) as pool:
            return list(pool.map(next_of, halves))

    def advance(self, half: Half) -> Half:
        """One more round."""
        s, number = self.settings, len(half.rounds)
        power = s.powers[min(number, len(s.powers) - 1)]
        starts = half.orders[:, -1]
        schedule = replace(s.trial, power=power, chains=len(starts))
        tables, _ = self.tables(half.sets, shares(half.sets, half.visited), trial=True)
        drawn, flatter = (
            run_chains(
                tables,
                self.prior,
                replace(schedule, power=p),
                seed=self.seed,
                parts=(TRIAL, half.number, number, turn),
                starts=starts,
            ).orders
            for turn, p in enumerate((power, power * s.flatter))
        )
        visited = np.concatenate([drawn, flatter], axis=1)
        sets, done = self.extend(half.sets, half.number, power, visited)
        return Half(half.number, sets, drawn, flatter, (*half.rounds, done))

    def extend(
        self, sets: ParentSets, half: int, power: float, orders: Int[np.ndarray, "chains S m"]
    ) -> tuple[ParentSets, Round]:
        """Look at the neighbours of what holds a share in these orders."""
        rng = generator(self.seed, Stream.NEARBY_ORDERS, half, len(sets))
        drawn = self.with_nearby(sets, orders.reshape(-1, sets.m), rng)
        held = shares(sets, drawn, least=self.settings.expand)
        refined, sketched = 0, 0.0
        if self.sketch is not None:
            sets, refined, sketched = self._refine(sets, held)
            if refined:
                held = shares(sets, drawn, least=self.settings.expand)
        rows = np.flatnonzero((held.log_peak > -self.settings.expand) & ~sets.expanded)
        new, share = neighbours(
            sets,
            rows,
            held,
            self.weigher,
            reach=self.settings.reach,
            sketch=self.sketch is not None,
        )
        expanded = sets.expanded.copy()
        expanded[rows] = True
        worst = float(np.bincount(new.nodes, np.exp(share), sets.m).max())
        sets = replace(sets, expanded=expanded).joined(new)
        if self.sketch is not None and power == 1.0:
            held = shares(sets, drawn, least=self.settings.expand)
            sets, checked, share = self._check_additions(sets, held)
            refined, worst = refined + checked, max(worst, share)
        return sets, Round(half, power, len(new), refined, max(worst, sketched))

    def _check_additions(self, sets: ParentSets, held: Shares) -> tuple[ParentSets, int, float]:
        """Have the mechanism score every addition to sets of many that hold a large share.

        Of many parents a stand-in with few units sees little: it may underrate an addition by tens
        of nats. Returns how many sets are new, and the share that they would hold of a node.
        """
        many = np.bitwise_count(sets.packed).sum(axis=1) >= MANY_PARENTS
        rows = np.flatnonzero((held.log_peak > -LARGE) & many)
        nodes, parents = sets.nodes[rows], sets.parents(rows)
        source, added = np.nonzero(held.room[rows] & ~parents & self.prior.free.T[nodes])
        near = parents[source]
        near[np.arange(len(source)), added] = True
        found = ParentSets.of(nodes[source], near)
        known = sets.rows_of(found)
        found = found.chosen(np.flatnonzero((known < 0) | np.isnan(sets.exact[known])))
        exact = self.exactly.weigh(found.nodes, found.parents())
        sketch = self.weigher.weigh(found.nodes, found.parents())
        best = np.full(sets.m, -np.inf)
        np.maximum.at(best, nodes, sets.weights[rows])
        share = np.bincount(found.nodes, np.exp(np.minimum(exact - best[found.nodes], 0)), sets.m)
        found = replace(found, exact=exact, sketch=sketch)
        return sets.joined(found), len(found), float(share.max())

    def with_nearby(
        self, sets: ParentSets, orders: Int[np.ndarray, "S m"], rng: np.random.Generator
    ) -> Int[np.ndarray, "K m"]:
        """The orders, and such as differ by the place of one node and weigh not much less.

        A move asks about orders nearby, and where their sets are not known the way is closed.
        """
        moved = np.repeat(orders, self.settings.nearby, axis=0)
        for order in moved:
            here, there = rng.integers(sets.m, size=2)
            node = order[here]
            order[:] = np.insert(np.delete(order, here), there, node)
        rank = np.argsort(moved, axis=1)
        late = rank[:, :, None] > rank[:, None, :]
        moved = moved[~(late & self.prior.required).any(axis=(1, 2))]
        weight = evidence(sets, moved).sum(axis=1) + order_prior(self.prior, moved)
        usual = (evidence(sets, orders).sum(axis=1) + order_prior(self.prior, orders)).mean()
        return np.concatenate([orders, moved[weight > usual - self.settings.reach]])

    def _refine(self, sets: ParentSets, held: Shares) -> tuple[ParentSets, int, float]:
        """Score by the mechanism what was only sketched and holds a share.

        Returns how many sets that was, and what share all sketched ones of a node held.
        """
        open_rows = np.isnan(sets.exact)
        share = float(np.bincount(sets.nodes[open_rows], held.mean[open_rows], sets.m).max())
        if share <= self.settings.sketched:
            return sets, 0, share
        ranked = np.lexsort((held.mean, sets.nodes))
        left = np.cumsum(np.where(open_rows, held.mean, 0.0)[ranked])
        begins = np.searchsorted(sets.nodes[ranked], sets.nodes[ranked])
        left -= (left - np.where(open_rows, held.mean, 0.0)[ranked])[begins]
        rest = np.empty(len(sets))
        rest[ranked] = left  # what this set and all smaller ones of its node hold
        wanted = (held.log_peak > -self.settings.refine) | (rest > self.settings.sketched)
        rows = np.flatnonzero(open_rows & wanted)
        exact = sets.exact.copy()
        exact[rows] = self.exactly.weigh(sets.nodes[rows], sets.parents(rows))
        return replace(sets, exact=exact), len(rows), share


def order_prior(prior: EdgePrior, orders: Int[np.ndarray, "S m"]) -> Float[np.ndarray, " S"]:
    """Σ log(1 − p_ij) over the open pairs that an order allows."""
    absent = np.where(prior.free, np.log1p(-prior.marginal), 0.0)
    rank = np.argsort(orders, axis=1)
    before = rank[:, :, None] < rank[:, None, :]
    return np.where(before, absent, 0.0).sum(axis=(1, 2))


def missed(own: Half, other: ParentSets) -> float:
    """The mean share, given the orders of a half, of sets that another collection lacks.

    The largest over nodes.
    """
    both = own.sets.joined(other)
    known = other.rows_of(both) >= 0
    part = evidence(both, own.drawn, among=known) - evidence(both, own.drawn)
    lacking = -np.expm1(part)
    return float(np.clip(lacking.mean(axis=0).max(), 0.0, 1.0))
