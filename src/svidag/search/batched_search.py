"""Annealed search over orders where scores are expensive: many questions asked together.

The same search as :mod:`svidag.search.order_search`, for any mechanism. It is written as
generators that yield the families whose weights they need and are sent on once these are known, so
that several searches and both directions of a move wait for one call of the mechanism. Nothing is
asked twice.

Where there is a cheap stand-in, it comes first: the last sweeps ask the mechanism itself, but only
about the few changes that the stand-in finds best.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.prior import EdgePrior
from svidag.search.order_search import SearchResult

Family = tuple[int, int]
"""A node and its parents, the parents as bits of a whole number."""

Weigh = Callable[[Int[np.ndarray, " B"], Bool[np.ndarray, "B m"]], Float[np.ndarray, " B"]]

Ask = Generator[tuple[int, list[Family]], None, "tuple[int, float]"]
"""Yields a level (0: stand-in, 1: mechanism) and families; ends with a set and its weight."""

HOPELESS = 12.0  # nats, times the power, by which a place may fall short before the next is skipped
# Changes to few parents and to many that the mechanism is asked about, the best by its stand-in.
SHORTLIST, MANY_PARENTS = (2, 5), 3
DOUBT = 20.0  # nats by which the stand-in may be wrong about a change
WINDOW = 8  # places looked at together


@dataclass(eq=False)
class Batches:
    """Weights that are known, and what is asked about the rest.

    Attributes
    ----------
    weigh
        Weights by the stand-in, and by the mechanism.
    m
        The number of variables.
    """

    weigh: tuple[Weigh, ...]
    m: int
    known: tuple[dict[Family, float], ...] = field(default_factory=lambda: ({}, {}), init=False)

    def __post_init__(self) -> None:
        self.gap, self.moment = np.zeros(self.m), np.ones(self.m)

    def corrected(self, family: Family) -> float:
        """The stand-in's weight with its drift made good.

        It fits large sets worse, by an amount that grows with their size; families that are known
        both ways tell the slope.
        """
        node, parents = family
        drift = self.gap[node] / self.moment[node]
        return self.known[0][family] + drift * parents.bit_count()

    def answer(self, level: int, families: set[Family]) -> None:
        """Have all these families weighed."""
        asked = [family for family in families if family not in self.known[level]]
        if not asked:
            return
        nodes = np.array([node for node, _ in asked])
        weights = self.weigh[level](nodes, unpack([parents for _, parents in asked], self.m))
        self.known[level].update(zip(asked, weights.tolist(), strict=True))
        if level == 1:
            for node, parents in asked:
                size, cheap = parents.bit_count(), self.known[0].get((node, parents))
                if cheap is not None:
                    self.gap[node] += size * (self.known[1][node, parents] - cheap)
                    self.moment[node] += size**2

    def run(self, tasks: Sequence[Generator[Any, None, Any]]) -> list:
        """Drive generators side by side until all have ended; what each returned."""
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
                self.answer(level, families)
        return results


def unpack(sets: Sequence[int], m: int) -> Bool[np.ndarray, "B m"]:
    """Whole numbers as rows of bits.

    Examples
    --------
    >>> unpack([5], 3).tolist()
    [[True, False, True]]
    """
    width = -(-m // 8)
    joined = b"".join(one.to_bytes(width, "little") for one in sets)
    rows = np.frombuffer(joined, dtype=np.uint8).reshape(len(sets), width)
    return np.unpackbits(rows, axis=1, count=m, bitorder="little").astype(bool)


def members(one: int) -> list[int]:
    """The bits of a whole number, ascending."""
    return [i for i in range(one.bit_length()) if one >> i & 1]


@dataclass(eq=False)
class Search:
    """One search: an order, and the best parents of every node in it.

    Attributes
    ----------
    batches
        Where weights come from.
    allowed, required
        For each node, who may and who must be its parent.
    after
        What the prior gives for i to come after k rather than before it.
    order
        The present order.
    level
        Whether the stand-in (0) or the mechanism (1) decides.
    """

    batches: Batches
    allowed: list[int]
    required: list[int]
    after: Float[np.ndarray, "m m"]
    order: list[int]
    level: int = 0
    best: dict[int, tuple[int, float]] = field(default_factory=dict)
    seen: dict[tuple[int, int, int], tuple[int, float]] = field(default_factory=dict)

    def compare(self, j: int, present: int, others: list[int]) -> Ask:
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
        asked = SHORTLIST[present.bit_count() >= MANY_PARENTS]
        ranked = sorted(range(1, len(weights)), key=lambda at: -weights[at])[:asked]
        likely = [0, *(at for at in ranked if weights[at] > weights[0] - DOUBT)]
        families = [families[at] for at in likely]
        known = self.batches.known[1]
        if any(family not in known for family in families):
            yield 1, families
        weights = [known[family] for family in families]
        at = int(np.argmax(weights))
        return families[at][1], weights[at]

    def climb(self, j: int, before: int, present: int) -> Ask:
        """Change a set by the best addition or removal among predecessors until none gains."""
        while True:
            free = before & self.allowed[j] & ~self.required[j]
            others = [present ^ 1 << i for i in members(free)]
            found, weight = yield from self.compare(j, present, others)
            if found == present:
                return found, weight
            present = found

    def entered(self, j: int, v: int, present: int, weight: float, before: int) -> Ask:
        """The best set of j after v has come before it."""
        if not self.allowed[j] >> v & 1:
            return present, weight
        key = (self.level, j, before)
        if key not in self.seen:
            found, weight = yield from self.compare(j, present, self.with_entered(j, v, present))
            if found != present:
                found, weight = yield from self.climb(j, before, found)
            self.seen[key] = found, weight
        return self.seen[key]

    def with_entered(self, j: int, v: int, present: int) -> list[int]:
        """The sets with v that are one addition or exchange away."""
        added = present | 1 << v
        return [added, *(added ^ 1 << r for r in members(present & ~self.required[j]))]

    def left(self, j: int, v: int, present: int, weight: float, before: int) -> Ask:
        """The best set of j after v has gone behind it."""
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
        """For places to one side: the gain, and the best sets of what was passed and of i."""
        here = self.order.index(i)
        own, own_weight = self.best[i]
        before = sum(1 << k for k in self.order[:here])
        passed, found, t = 0.0, [], here + step
        base = own_weight
        while 0 <= t < len(self.order):
            if (t - here) % WINDOW == step % WINDOW:
                yield 0, self.ahead(i, own, t, step)
            k = self.order[t]
            behind = sum(1 << x for x in self.order[:t] if x != i)
            old, weight = self.best[k]
            if step == 1:
                set_k = yield from self.left(k, i, old, weight, behind)
                before |= 1 << k
            else:
                set_k = yield from self.entered(k, i, old, weight, behind | 1 << i)
                before &= ~(1 << k)
            passed += step * self.after[i, k] + set_k[1] - weight
            turn = self.entered if step == 1 else self.left
            own, own_weight = yield from turn(i, k, own, own_weight, before)
            gain = passed + own_weight - base
            if gain == -np.inf:
                break
            found.append((gain, k, set_k, (own, own_weight)))
            if power * gain < -HOPELESS:
                break
            t += step
        return found

    def ahead(self, i: int, own: int, t: int, step: int) -> list[Family]:
        """Families that the next places will most likely ask about."""
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

    `weigh` has the mechanism last and a stand-in before it, if there is one; `powers` are those of
    the sweeps at each level, none where the level is not asked.
    """
    m = len(prior.names)
    absent = np.where(prior.free, np.log1p(-prior.marginal), 0.0)
    batches = Batches(weigh, m)
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
                unpack([parents for _, parents in listed], m),
                np.array([exactly.get(family, np.nan) for family in listed]),
                sum(parents.bit_count() for parents, _ in search.best.values()) / m,
            )
        )
    return results
