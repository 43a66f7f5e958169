"""Markov chains over orders of the variables, with every parent set summed out.

Given an order, the parents of j lie among its predecessors U_j, and p(D | order) = Π_j exp F_j(U_j)
(:mod:`svidag.scores`). Orders are uniform a priori, so this product is the target. Each chain is
the last level of a ladder of replicas (:mod:`svidag.samplers.relocation`).

Chains run in segments. After each one, orders and edge probabilities so far decide whether to go
on (:mod:`svidag.run.convergence`). A segment's randomness depends on the seed, the chain and
the segment's number alone, so an interrupted run that is resumed from its last segment gives the
same result as one that was not interrupted.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from svidag.graph.extension import draw_linear_extensions
from svidag.orders.permutation import power_ladder
from svidag.prior import EdgePrior
from svidag.run.chains import run_segments
from svidag.run.convergence import Agreement
from svidag.run.pools import Pool, Shared, Threads
from svidag.run.side_by_side import run_to_end
from svidag.run.streams import Stream, generator
from svidag.samplers import relocation as relocate
from svidag.samplers.ladder import best_levels, respace_powers
from svidag.samplers.relocation import EXCHANGES, MOVES
from svidag.scores import ScoreTables
from svidag.scores.lookup import CompiledTables, compiled_tables, draw_sets

ADAPTATIONS = 3  # times that powers are spaced anew in burn-in


@dataclass(frozen=True)
class Schedule:
    """How the chains move and for how long. A sweep is m moves at each level of the ladder.

    Attributes
    ----------
    chains
        Independent chains, each from its own random orders.
    levels, flattest
        Replicas of a chain, and the power of the target at the first. Powers rise geometrically
        until burn-in has spaced them so that all neighbours exchange equally often.
    burn_in
        Sweeps thrown away.
    orders
        Orders kept from each chain at most: the budget.
    check_every
        Orders kept from each chain between two checks whether the chains may end.
    thin
        Sweeps from one kept order to the next.
    stopping_rule
        When chains may end before the budget is used up.
    moves
        ``"relocation"`` gives a node any place, ``"swap"`` its own or the next, and ``"none"``
        leaves all orders where they began, so that they come from the prior.
    power
        The power of p(D | order) that is the target: 1 for the posterior.
    resize
        Whether burn-in also chooses the number of levels; `levels` is then that at its start.
    """

    chains: int = 4
    levels: int = 4
    flattest: float = 0.1
    burn_in: int = 200
    orders: int = 1000
    check_every: int = 100
    thin: int = 10
    stopping_rule: Agreement = field(default_factory=Agreement)
    moves: str = "relocation"
    power: float = 1.0
    resize: bool = False

    def __post_init__(self) -> None:
        for name in ("chains", "levels", "orders", "check_every", "thin"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}")
        if not 0 < self.flattest <= 1:
            raise ValueError(f"flattest must be in (0, 1]; got {self.flattest}")
        if self.moves not in MOVES:
            raise ValueError(f"moves must be one of {list(MOVES)}; got {self.moves!r}")

    @property
    def powers(self) -> Float[np.ndarray, " levels"]:
        """The power of p(D | order) at each level when burn-in begins."""
        return self.power * power_ladder(self.levels, self.flattest)

    @property
    def sweeps(self) -> int:
        """Sweeps of all chains together, if the budget is used up."""
        return self.chains * (self.burn_in + self.orders * self.thin)


@dataclass(frozen=True, eq=False)
class OrderChains:
    """What the chains have collected so far, and their present orders.

    Attributes
    ----------
    orders
        Kept orders, causes first.
    log_evidence
        log p(D | order) of each kept order.
    edge_sums
        For each chain, the sum of P(i → j | order, D) over all its sweeps.
    moves
        How many moves changed the order, by chain.
    exchanges
        How many exchanges each pair of neighbouring levels made.
    replicas
        The present orders of all levels.
    powers
        The power of p(D | order) at each level.
    sweeps
        Sweeps of each chain since burn-in.
    """

    orders: Int[np.ndarray, "chains S m"]
    log_evidence: Float[np.ndarray, "chains S"]
    edge_sums: Float[np.ndarray, "chains m m"]
    moves: Int[np.ndarray, " chains"]
    exchanges: Int[np.ndarray, "chains levels"]
    replicas: Int[np.ndarray, "chains levels m"]
    powers: Float[np.ndarray, " levels"]
    sweeps: int

    @property
    def length(self) -> int:
        """Orders kept from each chain."""
        return self.orders.shape[1]

    @property
    def edges(self) -> Float[np.ndarray, "chains m m"]:
        """For each chain, the mean of P(i → j | order, D) over its sweeps (Rao–Blackwell)."""
        return self.edge_sums / max(self.sweeps, 1)

    @property
    def moved(self) -> Float[np.ndarray, " chains"]:
        """The share of moves that changed the order, by chain."""
        return self.moves / max(self.sweeps * self.orders.shape[2], 1)

    @property
    def exchanged(self) -> Float[np.ndarray, " pairs"]:
        """The share of exchanges accepted between neighbouring levels, flattest first."""
        return 2 * self.exchanges.mean(axis=0)[:-1] / max(self.sweeps * EXCHANGES, 1)

    def followed_by(self, later: OrderChains) -> OrderChains:
        """Both together, as one run."""
        return OrderChains(
            np.concatenate([self.orders, later.orders], axis=1),
            np.concatenate([self.log_evidence, later.log_evidence], axis=1),
            self.edge_sums + later.edge_sums,
            self.moves + later.moves,
            self.exchanges + later.exchanges,
            later.replicas,
            later.powers,
            self.sweeps + later.sweeps,
        )


Keep = Callable[[OrderChains], None]
"""Called with everything collected so far after each segment."""


def run_chains(
    tables: ScoreTables,
    prior: EdgePrior,
    schedule: Schedule,
    *,
    seed: int,
    parts: tuple[int, ...] = (),
    starts: Int[np.ndarray, "chains m"] | None = None,
    report: Callable[[int], None] | None = None,
    keep: Keep | None = None,
    estimate: Callable[[float], None] | None = None,
    resumed: OrderChains | None = None,
    stop: Callable[[], bool] | None = None,
    pool: Pool | None = None,
) -> OrderChains:
    """Run independent chains over orders, as many at once as there are workers in the pool.

    Chains begin at `starts`, or at random orders. `report` is called with the number of finished
    sweeps, summed over chains. `resumed` is what an interrupted call with the same other arguments
    last passed to `keep`. `estimate` is called after burn-in with the seconds that the budget takes
    at most. `stop` is called after each segment; True ends the run. Without a `pool` chains run in
    threads, one for each core.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.prior import Prior
    >>> from svidag.scores import NodeTable, ScoreTables
    >>> masks = np.array([0, 1])
    >>> a, b = (NodeTable(np.array([i]), masks, np.array([0.0, 9.0])) for i in (1, 0))
    >>> beliefs = Prior().bind("ab")
    >>> tables = ScoreTables.of([a, b], beliefs)
    >>> chains = run_chains(tables, beliefs, Schedule(chains=2, orders=50), seed=0)
    >>> bool(chains.edges.mean(axis=0).sum() > 0.99)
    True
    """
    runner = _ChainRunner(
        tables, schedule, seed, parts, report or (lambda sweeps: None), pool or Threads()
    )
    began = time.perf_counter()
    chains = resumed or runner.burn_in(prior, starts)
    if estimate is not None and resumed is None and schedule.burn_in:
        seconds = (time.perf_counter() - began) / schedule.burn_in
        estimate(seconds * schedule.orders * schedule.thin)
    return run_segments(
        chains,
        runner.run_segment,
        budget=schedule.orders,
        rule=schedule.stopping_rule,
        keep=keep,
        expired=stop,
    )


def draw_graphs(
    tables: ScoreTables, orders: Int[np.ndarray, "S m"], *, seed: int
) -> UInt8[np.ndarray, "S m m"]:
    """For each order, draw every node's parents from their exact conditional.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.prior import Prior
    >>> from svidag.scores import NodeTable, ScoreTables
    >>> masks = np.array([0, 1])
    >>> a, b = (NodeTable(np.array([i]), masks, np.array([0.0, 9.0])) for i in (1, 0))
    >>> tables = ScoreTables.of([a, b], Prior().bind("ab"))
    >>> bool(draw_graphs(tables, np.array([[1, 0]] * 9), seed=0)[:, 0, 1].any())
    False
    """
    uniforms = generator(seed, Stream.PARENT_SET_DRAWS).random(orders.shape)
    orders, drawn = orders.astype(np.int64), np.zeros(orders.shape, dtype=np.int64)
    arrays = compiled_tables(tables)
    for j in range(tables.m):
        draw_sets(
            j,
            orders,
            *tables.nodes[j].by_weight(),
            arrays,
            uniforms[:, j],
            drawn[:, j],
        )
    graphs = np.zeros((len(orders), tables.m, tables.m), dtype=np.uint8)
    for j, node in enumerate(tables.nodes):
        graphs[:, node.candidates, j] = drawn[:, j, None] >> np.arange(len(node.candidates)) & 1
    return graphs


class _ChainRunner:
    """Moves all chains from segment to segment."""

    def __init__(
        self,
        tables: ScoreTables,
        schedule: Schedule,
        seed: int,
        parts: tuple[int, ...],
        report: Callable[[int], None],
        pool: Pool,
    ) -> None:
        self._tables, self._schedule, self._report = tables, schedule, report
        self._seed, self._parts, self._pool = seed, parts, pool
        self._shared = Shared(_ChainTables(tables, schedule.thin, MOVES.index(schedule.moves)))
        self._done = 0

    def burn_in(self, prior: EdgePrior, starts: Int[np.ndarray, "chains m"] | None) -> OrderChains:
        """Chains after their first sweeps, with nothing kept yet."""
        s, m = self._schedule, self._tables.m
        if starts is None:
            rng = generator(self._seed, Stream.CHAIN_STARTS, *self._parts)
            replicas = draw_linear_extensions(prior.required, s.chains * s.levels, rng)
        else:
            replicas = np.repeat(starts, s.levels, axis=0)
        blank = OrderChains(
            np.empty((s.chains, 0, m), dtype=np.int64),
            np.empty((s.chains, 0)),
            np.zeros((s.chains, m, m)),
            np.zeros(s.chains, dtype=np.int64),
            np.zeros((s.chains, s.levels), dtype=np.int64),
            replicas.reshape(s.chains, s.levels, m).astype(np.int64),
            s.powers,
            0,
        )
        steps = -(-s.burn_in // s.thin)
        stages = ADAPTATIONS + 1 if s.levels > 2 and steps > ADAPTATIONS else 1
        for stage in range(stages if steps else 0):
            length = steps * (stage + 1) // stages - steps * stage // stages
            done = self._run_in_parallel(blank, (0, stage), length)
            blank = replace(blank, replicas=done.replicas, powers=done.powers)
            if stage < stages - 1:
                blank = self._respace(blank, done.exchanged)
        return blank

    def _respace(self, chains: OrderChains, exchanged: Float[np.ndarray, " pairs"]) -> OrderChains:
        """The same chains with powers that the last exchanges show to be better."""
        old = chains.powers
        levels = best_levels(exchanged) if self._schedule.resize else len(old)
        powers = respace_powers(old, exchanged, levels)
        if levels == len(old):
            return replace(chains, powers=powers)
        # Each new level begins with the order of the old one that is nearest to it.
        nearest = abs(np.log(powers)[:, None] - np.log(old)).argmin(axis=1)
        return replace(
            chains,
            exchanges=np.zeros((len(chains.exchanges), levels), dtype=np.int64),
            replicas=chains.replicas[:, nearest],
            powers=powers,
        )

    def run_segment(self, chains: OrderChains) -> OrderChains:
        """What the next segment of every chain collects."""
        s, kept = self._schedule, chains.length
        self._done = s.chains * (s.burn_in + chains.sweeps)
        steps = min(s.check_every, s.orders - kept)
        return self._run_in_parallel(chains, (1 + kept // s.check_every,), steps)

    def _run_in_parallel(
        self, chains: OrderChains, number: tuple[int, ...], steps: int
    ) -> OrderChains:
        """Every chain `steps` orders further, as many chains at once as there are workers."""
        thin = self._schedule.thin
        kept = np.zeros(self._schedule.chains, dtype=np.int64)

        def report_one(c: int, orders: int) -> None:
            kept[c] = orders
            self._report(self._done + thin * int(kept.sum()))

        def report_all(segments: list[_Segment]) -> None:
            for c, segment in enumerate(segments):
                report_one(c, max(int(kept[c]), segment.done))

        starts = [
            _Segment.start(
                chains.replicas[c],
                chains.powers,
                generator(self._seed, Stream.CHAIN_SEGMENTS, *self._parts, c, *number),
                steps,
                self._pool.slice_seconds,
            )
            for c in range(self._schedule.chains)
        ]
        found = run_to_end(
            _move_on,
            starts,
            pool=self._pool,
            shared=self._shared,
            report=report_all,
            heard=report_one,
        )
        self._done += thin * steps * len(found)
        return OrderChains(
            np.stack([segment.orders for segment in found]),
            np.stack([segment.log_evidence for segment in found]),
            np.stack([segment.edges for segment in found]),
            np.concatenate([segment.moved for segment in found]),
            np.stack([segment.exchanged for segment in found]),
            np.stack([segment.replicas for segment in found]),
            powers=chains.powers,
            sweeps=steps * thin,
        )


class _ChainTables:
    """What every chain needs; each that moves has its own cache of sums for that time.

    Threads would otherwise write to the same arrays. What the cache holds changes no result.
    """

    def __init__(self, tables: ScoreTables, thin: int, moves: int) -> None:
        self.tables, self.thin, self.moves = tables, thin, moves
        self._free: list[CompiledTables] = []

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_free": []}

    @contextmanager
    def compiled(self) -> Iterator[CompiledTables]:
        try:
            found = self._free.pop()
        except IndexError:
            found = compiled_tables(self.tables)
        try:
            yield found
        finally:
            self._free.append(found)


class _Segment(NamedTuple):
    """A segment of one chain, of which a task does a slice: where the chain is, what it collected.

    Attributes
    ----------
    replicas, powers, rng
        The present orders of all levels, the power at each, and the generator of what follows.
    orders, log_evidence, edges, moved, exchanged
        What was collected so far.
    done
        Orders that were kept so far.
    seconds
        After how long a slice ends.
    """

    replicas: Int[np.ndarray, "levels m"]
    powers: Float[np.ndarray, " levels"]
    rng: np.random.Generator
    orders: Int[np.ndarray, "S m"]
    log_evidence: Float[np.ndarray, " S"]
    edges: Float[np.ndarray, "m m"]
    moved: Int[np.ndarray, " 1"]
    exchanged: Int[np.ndarray, " levels"]
    done: int
    seconds: float

    @classmethod
    def start(
        cls,
        replicas: Int[np.ndarray, "levels m"],
        powers: Float[np.ndarray, " levels"],
        rng: np.random.Generator,
        steps: int,
        seconds: float,
    ) -> _Segment:
        levels, m = replicas.shape
        return cls(
            replicas,
            powers,
            rng,
            np.empty((steps, m), dtype=np.int64),
            np.empty(steps),
            np.zeros((m, m)),
            np.zeros(1, dtype=np.int64),
            np.zeros(levels, dtype=np.int64),
            0,
            seconds,
        )

    @property
    def finished(self) -> bool:
        return self.done == len(self.orders)

    def copied(self) -> _Segment:
        """The same with arrays of its own: a slice that is lost must not have changed this one."""
        return copy.deepcopy(self)


def _move_on(shared: _ChainTables, before: _Segment, alive: Callable[..., None]) -> _Segment:
    """The segment after one more slice, as a task."""
    ends = time.perf_counter() + before.seconds
    now, done = before.copied(), before.done
    levels, m = now.replicas.shape
    with shared.compiled() as compiled:
        room = compiled.work_space()
        while done < len(now.orders):
            uniforms = now.rng.random((shared.thin, levels, m, 2))
            swaps = now.rng.random((shared.thin, EXCHANGES, levels))
            relocate.sweep(
                shared.moves,
                now.replicas,
                compiled,
                now.powers,
                uniforms,
                swaps,
                now.edges,
                now.moved,
                now.exchanged,
                room,
            )
            now.orders[done] = now.replicas[-1]
            done += 1
            alive(done)
            if time.perf_counter() > ends:
                break
    now = now._replace(done=done)
    if now.finished:
        now = now._replace(log_evidence=shared.tables.log_evidence(now.orders))
    return now
