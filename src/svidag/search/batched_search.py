"""Annealed search over orders with expensive scores, which are computed in large batches.

The same search as :mod:`svidag.search.order_search`, for any mechanism. It is written as
generators that yield the families whose weights they need and continue once these are known, so
that several searches and both directions of a move share one call of the mechanism. No family is
scored twice.

Where there is a cheap approximation of the mechanism, the first sweeps use it alone. The last
sweeps use the mechanism, but only for the few changes that the approximation ranks highest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.mechanisms.local import unpack_sets
from svidag.prior import EdgePrior
from svidag.search.order_search import SearchResult

Family = tuple[int, int]
"""A node and its parents, the parents as bits of a whole number."""

Weigh = Callable[[Int[np.ndarray, " B"], Bool[np.ndarray, "B m"]], Float[np.ndarray, " B"]]

BestSetSearch = Generator[tuple[int, list[Family]], None, "tuple[int, float]"]
"""Yields a level (0: approximation, 1: mechanism) and families; returns a set and its weight."""

GIVE_UP = 12.0  # places further on are skipped after power · gain < −GIVE_UP
# Changes that the mechanism scores, for few and for many parents: the best by the approximation.
SHORTLIST, MANY_PARENTS = (2, 5), 3
APPROXIMATION_ERROR = 20.0  # nats by which the approximation may be wrong about a change
WINDOW = 8  # places whose families are scored in one batch


@dataclass(eq=False)
class BatchedScores:
    """Weights of families: cached if known, else computed in batches.

    Attributes
    ----------
    weigh
        Functions for the weights by the approximation, if there is one, and the mechanism.
    m
        The number of variables.
    """

    weigh: tuple[Weigh, ...]
    m: int
    known: tuple[dict[Family, float], ...] = field(default_factory=lambda: ({}, {}), init=False)

    def __post_init__(self) -> None:
        self.gap, self.moment = np.zeros(self.m), np.ones(self.m)

    def corrected(self, family: Family) -> float:
        """The weight by the approximation, corrected for its bias.

        It fits large sets worse, by an amount that grows with their size. The slope is estimated
        from families whose weight is known both ways.
        """
        node, parents = family
        drift = self.gap[node] / self.moment[node]
        return self.known[0][family] + drift * parents.bit_count()

    def score(self, level: int, families: set[Family]) -> None:
        """Compute the weights of the families that are not yet known."""
        unknown = [family for family in families if family not in self.known[level]]
        if not unknown:
            return
        nodes = np.array([node for node, _ in unknown])
        weights = self.weigh[level](nodes, unpack_sets([parents for _, parents in unknown], self.m))
        self.known[level].update(zip(unknown, weights.tolist(), strict=True))
        if level == 1:
            for node, parents in unknown:
                size, cheap = parents.bit_count(), self.known[0].get((node, parents))
                if cheap is not None:
                    self.gap[node] += size * (self.known[1][node, parents] - cheap)
                    self.moment[node] += size**2

    def run(self, tasks: Sequence[Generator[Any, None, Any]]) -> list:
        """Run generators side by side until all have ended; returns what each returned."""
        results: list = [None] * len(tasks)
        waiting = dict(enumerate(tasks))
        while waiting:
            wanted: tuple[set[Family], set[Family]] = (set(), set())
            for at, task in list(waiting.items()):
                try:
                    level, families = next(task)
                    wanted[level].update(families)
                except StopIteration as end:
                    results[at] = end.value
                    del waiting[at]
            for level, families in enumerate(wanted):
                self.score(level, families)
        return results


def members(one: int) -> list[int]:
    """The bits of a whole number, ascending."""
    return [i for i in range(one.bit_length()) if one >> i & 1]


@dataclass(eq=False)
class Search:
    """One search: an order, and the best parents of every node in it.

    Attributes
    ----------
    batches
        The source of weights.
    allowed, required
        For each node, who may and who must be its parent.
    after
        The gain in log prior if i comes after k instead of before it.
    order
        The present order.
    level
        Whether the approximation (0) or the mechanism (1) decides.
    """

    batches: BatchedScores
    allowed: list[int]
    required: list[int]
    after: Float[np.ndarray, "m m"]
    order: list[int]
    level: int = 0
    best: dict[int, tuple[int, float]] = field(default_factory=dict)
    seen: dict[tuple[int, int, int], tuple[int, float]] = field(default_factory=dict)

    def best_of(self, j: int, present: int, others: list[int]) -> BestSetSearch:
        """The best of the present set and others, and its weight."""
        families = [(j, one) for one in (present, *others)]
        known = self.batches.known[0]
        if any(family not in known for family in families):
            yield 0, families
        if self.level == 0:
            weights = [known[family] for family in families]
            at = int(np.argmax(weights))
            return families[at][1], weights[at]
        weights = [self.batches.corrected(family) for family in families]
        count = SHORTLIST[present.bit_count() >= MANY_PARENTS]
        ranked = sorted(range(1, len(weights)), key=lambda at: -weights[at])[:count]
        likely = [0, *(at for at in ranked if weights[at] > weights[0] - APPROXIMATION_ERROR)]
        families = [families[at] for at in likely]
        known = self.batches.known[1]
        if any(family not in known for family in families):
            yield 1, families
        weights = [known[family] for family in families]
        at = int(np.argmax(weights))
        return families[at][1], weights[at]

    def climb(self, j: int, before: int, present: int) -> BestSetSearch:
        """Change a set by the best addition or removal among predecessors until none gains."""
        while True:
            free = before & self.allowed[j] & ~self.required[j]
            others = [present ^ 1 << i for i in members(free)]
            found, weight = yield from self.best_of(j, present, others)
            if found == present:
                return found, weight
            present = found

    def best_after_entry(
        self, j: int, v: int, present: int, weight: float, before: int
    ) -> BestSetSearch:
        """The best set of j after v has become a predecessor of j."""
        if not self.allowed[j] >> v & 1:
            return present, weight
        key = (self.level, j, before)
        if key not in self.seen:
            found, weight = yield from self.best_of(j, present, self.with_entered(j, v, present))
            if found != present:
                found, weight = yield from self.climb(j, before, found)
            self.seen[key] = found, weight
        return self.seen[key]

    def with_entered(self, j: int, v: int, present: int) -> list[int]:
        """The sets with v that are one addition or exchange away."""
        added = present | 1 << v
        return [added, *(added ^ 1 << r for r in members(present & ~self.required[j]))]

    def best_after_exit(
        self, j: int, v: int, present: int, weight: float, before: int
    ) -> BestSetSearch:
        """The best set of j after v has ceased to be a predecessor of j."""
        if not present >> v & 1:
            return present, weight
        if self.required[j] >> v & 1:
            return present, -np.inf
        key = (self.level, j, before)
        if key not in self.seen:
            self.seen[key] = yield from self.climb(j, before, present ^ 1 << v)
        return self.seen[key]

    def begin(self, level: int) -> Generator[Any, None, None]:
        """Find the best sets of the present order."""
        self.level = level
        before = 0
        for j in self.order:
            present = self.best.get(j, (self.required[j], 0.0))[0]
            self.best[j] = yield from self.climb(j, before, present)
            before |= 1 << j

    def places(self, i: int, step: int, power: float) -> Generator[Any, None, list]:
        """For each place on one side of i: the gain, and new best sets of the passed node and i."""
        here = self.order.index(i)
        own, own_weight = self.best[i]
        before = sum(1 << k for k in self.order[:here])
        passed, found, t = 0.0, [], here + step
        base = own_weight
        while 0 <= t < len(self.order):
            if (t - here) % WINDOW == step % WINDOW:
                yield 0, self.likely_families(i, own, t, step)
            k = self.order[t]
            behind = sum(1 << x for x in self.order[:t] if x != i)
            old, weight = self.best[k]
            if step == 1:
                set_k = yield from self.best_after_exit(k, i, old, weight, behind)
                before |= 1 << k
            else:
                set_k = yield from self.best_after_entry(k, i, old, weight, behind | 1 << i)
                before &= ~(1 << k)
            passed += step * self.after[i, k] + set_k[1] - weight
            turn = self.best_after_entry if step == 1 else self.best_after_exit
            own, own_weight = yield from turn(i, k, own, own_weight, before)
            gain = passed + own_weight - base
            if gain == -np.inf:
                break
            found.append((gain, k, set_k, (own, own_weight)))
            if power * gain < -GIVE_UP:
                break
            t += step
        return found

    def likely_families(self, i: int, own: int, t: int, step: int) -> list[Family]:
        """Families whose weights the next places will most likely need."""
        families: list[Family] = []
        for k in (
            self.order[t : t + WINDOW] if step == 1 else self.order[max(0, t - WINDOW + 1) : t + 1]
        ):
            if step == 1 and self.allowed[i] >> k & 1:
                families += [(i, one) for one in self.with_entered(i, k, own)]
            elif step == -1 and self.allowed[k] >> i & 1:
                families += [(k, one) for one in self.with_entered(k, i, self.best[k][0])]
        return families

    def move(self, i: int, right: list, left: list, power: float, uniform: float) -> float:
        """Put i at a place drawn by its gain; returns the gain."""
        options = [0.0, *(found[0] for found in right), *(found[0] for found in left)]
        shares = np.exp(power * (np.array(options) - max(options)))
        at = int(np.searchsorted(shares.cumsum(), uniform * shares.sum(), side="right"))
        at = min(at, len(options) - 1)
        if at == 0:
            return 0.0
        side = right[:at] if at <= len(right) else left[: at - len(right)]
        here, step = self.order.index(i), 1 if at <= len(right) else -1
        for _, k, set_k, own in side:
            self.best[k], self.best[i] = set_k, own
        self.order.insert(here + step * len(side), self.order.pop(here))
        return options[at]

    @property
    def log_weight(self) -> float:
        """Σ_j of the best weights, and the prior's part of the order up to a constant."""
        rank = np.argsort(self.order)
        before = rank[:, None] < rank[None, :]
        return sum(weight for _, weight in self.best.values()) + 0.5 * self.after.T[before].sum()


def search_in_batches(
    weigh: tuple[Weigh, ...],
    prior: EdgePrior,
    starts: Int[np.ndarray, "searches m"],
    *,
    powers: Sequence[Float[np.ndarray, " _"]],
    rng: np.random.Generator,
    stop: Callable[[], bool],
    report: Callable[[int], None],
) -> list[SearchResult]:
    """Anneal from each of the starting orders, all at once, level after level.

    `weigh` has the mechanism last and an approximation before it, if there is one; `powers` has the
    powers of the sweeps at each level, empty where the level is not used.
    """
    m = len(prior.names)
    absent = np.where(prior.free, np.log1p(-prior.marginal), 0.0)
    batches = BatchedScores(weigh, m)
    bit = [1 << i for i in range(m)]
    allowed = [sum(bit[i] for i in np.flatnonzero(column)) for column in prior.allowed.T]
    required = [sum(bit[i] for i in np.flatnonzero(column)) for column in prior.required.T]
    searches = [
        Search(batches, allowed, required, absent.T - absent, start.tolist()) for start in starts
    ]
    tops: list[tuple[float, list[int]]] = [(-np.inf, []) for _ in searches]
    sweeps = 0
    for level, own in enumerate(powers):
        if len(own) == 0:
            continue
        batches.run([search.begin(level) for search in searches])
        tops = [(search.log_weight, search.order.copy()) for search in searches]
        for power in own:
            for _ in range(m):
                moved = [int(rng.integers(m)) for _ in searches]
                tasks = [
                    search.places(i, step, power)
                    for search, i in zip(searches, moved, strict=True)
                    for step in (1, -1)
                ]
                found = batches.run(tasks)
                for at, (search, i) in enumerate(zip(searches, moved, strict=True)):
                    search.move(i, found[2 * at], found[2 * at + 1], power, rng.random())
            for at, search in enumerate(searches):
                if search.log_weight > tops[at][0]:
                    tops[at] = search.log_weight, search.order.copy()
            sweeps += 1
            report(sweeps)
            if stop():
                break
    results = []
    exactly = batches.known[len(weigh) - 1]
    for search, (top, order) in zip(searches, tops, strict=True):
        sets = {(j, parents) for (_, j, _), (parents, _) in search.seen.items()}
        sets |= {(j, parents) for j, (parents, _) in search.best.items()}
        listed = sorted(sets)
        results.append(
            SearchResult(
                np.array(order),
                float(top + 0.5 * absent.sum()),
                np.array([j for j, _ in listed]),
                unpack_sets([parents for _, parents in listed], m),
                np.array([exactly.get(family, np.nan) for family in listed]),
                sum(parents.bit_count() for parents, _ in search.best.values()) / m,
            )
        )
    return results
