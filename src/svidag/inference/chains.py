"""Markov chains over orders of the variables, with every parent set summed out.

Given an order, the parents of j lie among its predecessors U_j, and p(D | order) = Π_j exp F_j(U_j)
(:mod:`svidag.scores`). Orders are uniform a priori, so this product is the target. Burn-in is
tempered: moves target p(D | order)^τ with τ rising to 1. Then τ stays, and orders and conditional
edge probabilities are collected.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, UInt8

from svidag.graph.extension import draw_linear_extensions
from svidag.inference import relocate
from svidag.prior import EdgePrior
from svidag.scores import ScoreTables

_SWEEPS_AT_ONCE = 50  # tempered sweeps between two reports of progress


@dataclass(frozen=True)
class Schedule:
    """How long the chains run. A sweep is m relocations.

    Attributes
    ----------
    chains
        Independent chains, each from its own random order.
    burn_in
        Tempered sweeps, thrown away.
    orders
        Orders kept from each chain.
    thin
        Sweeps from one kept order to the next.
    flattest
        The power τ at which burn-in begins; it rises geometrically.
    power
        The power τ after burn-in: 1 for the posterior.
    """

    chains: int = 4
    burn_in: int = 500
    orders: int = 500
    thin: int = 20
    flattest: float = 0.05
    power: float = 1.0

    @property
    def sweeps(self) -> int:
        """Sweeps of all chains together."""
        return self.chains * (self.burn_in + self.orders * self.thin)


@dataclass(frozen=True, eq=False)
class OrderChains:
    """What the chains collected after burn-in.

    Attributes
    ----------
    orders
        Kept orders, causes first.
    log_evidence
        log p(D | order) of each kept order.
    edges
        For each chain, the mean of P(i → j | order, D) over all its sweeps (Rao–Blackwell).
    moved
        The share of moves after burn-in that changed the order, by chain.
    """

    orders: Int[np.ndarray, "chains S m"]
    log_evidence: Float[np.ndarray, "chains S"]
    edges: Float[np.ndarray, "chains m m"]
    moved: Float[np.ndarray, " chains"]

    @property
    def disagreement(self) -> float:
        """The largest distance of a chain's edge probability from the mean over chains."""
        return float(np.abs(self.edges - self.edges.mean(axis=0)).max())


def run_chains(
    tables: ScoreTables,
    prior: EdgePrior,
    schedule: Schedule,
    *,
    seed: int,
    report: Callable[[int], None] | None = None,
) -> OrderChains:
    """Run independent chains over orders, as many at once as there are cores.

    `report` is told the number of finished sweeps, summed over chains.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> from svidag.prior import Prior
    >>> from svidag.scores import NodeTable, ScoreTables, grow
    >>> x = np.random.default_rng(0).standard_normal((99, 2))
    >>> x[:, 1] += x[:, 0]
    >>> model, beliefs = LinearGaussian.from_values(x), Prior().bind("ab")
    >>> blank = [NodeTable.empty(np.array([1])), NodeTable.empty(np.array([0]))]
    >>> tables = ScoreTables.assemble(grow(model, beliefs, blank, slack=9.0), beliefs)
    >>> chains = run_chains(tables, beliefs, Schedule(chains=2, orders=50), seed=0)
    >>> bool(chains.edges.mean(axis=0).sum() > 0.99)
    True
    """
    starts = draw_linear_extensions(
        prior.required, schedule.chains, np.random.default_rng([seed, 0])
    )
    done = np.zeros(schedule.chains, dtype=np.int64)

    def single(c: int) -> tuple[np.ndarray, ...]:
        def tell(sweeps: int) -> None:
            done[c] += sweeps
            if report is not None:
                report(int(done.sum()))

        chain = _Chain(tables, starts[c], np.random.default_rng([seed, 1, c]))
        return _collect(chain, schedule, tell)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(single, range(schedule.chains)))
    return OrderChains(*(np.stack(part) for part in zip(*parts, strict=True)))


def draw_graphs(
    tables: ScoreTables, orders: Int[np.ndarray, "S m"], *, seed: int
) -> UInt8[np.ndarray, "S m m"]:
    """For each order, draw every node's parents from their exact conditional.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> from svidag.prior import Prior
    >>> from svidag.scores import NodeTable, ScoreTables, grow
    >>> x = np.random.default_rng(0).standard_normal((99, 2))
    >>> model, beliefs = LinearGaussian.from_values(x), Prior().bind("ab")
    >>> blank = [NodeTable.empty(np.array([1])), NodeTable.empty(np.array([0]))]
    >>> tables = ScoreTables.assemble(grow(model, beliefs, blank, slack=9.0), beliefs)
    >>> bool(draw_graphs(tables, np.array([[1, 0]] * 9), seed=0)[:, 0, 1].any())
    False
    """
    uniforms = np.random.default_rng([seed, 2]).random(orders.shape)
    drawn = np.zeros(orders.shape, dtype=np.int64)
    for j in range(tables.m):
        weights = tables.weights[tables.cells(j)]
        scored = np.flatnonzero(np.isfinite(weights))
        relocate.draw_sets(
            j,
            orders,
            tables.bits,
            weights,
            tables.sums[tables.cells(j)],
            scored[np.argsort(-weights[scored], kind="stable")],
            uniforms[:, j],
            drawn[:, j],
        )
    return (drawn[:, None, :] & tables.bits > 0).astype(np.uint8)


class _Chain:
    """One chain's order and random stream, moved in place."""

    def __init__(self, tables: ScoreTables, start: np.ndarray, rng: np.random.Generator) -> None:
        self.order = start.astype(np.int64)
        self.edges = np.zeros((tables.m, tables.m))
        self._tables = tables
        self._place = np.empty_like(self.order)
        self._masks = np.empty_like(self.order)
        self._rng = rng
        relocate.locate(self.order, tables.bits, self._place, self._masks)

    def run(self, powers: Float[np.ndarray, " sweeps"], *, collect: bool) -> int:
        t = self._tables
        uniforms = self._rng.random((len(powers) * t.m, 2))
        return relocate.sweep(
            self.order, self._place, self._masks, t.sums, t.offsets, t.bits, t.absent,
            powers, uniforms, collect, self.edges,
        )  # fmt: skip

    def log_evidence(self) -> float:
        t = self._tables
        return relocate.evidence(self.order, self._masks, t.sums, t.offsets, t.absent)


def _collect(
    chain: _Chain, schedule: Schedule, tell: Callable[[int], None]
) -> tuple[np.ndarray, ...]:
    """Burn in, then keep orders, their evidence, mean edges and the share of moves."""
    rising = np.geomspace(min(schedule.flattest, schedule.power), schedule.power, schedule.burn_in)
    for start in range(0, schedule.burn_in, _SWEEPS_AT_ONCE):
        powers = rising[start : start + _SWEEPS_AT_ONCE]
        chain.run(powers, collect=False)
        tell(len(powers))
    orders, evidences, moved = [], [], 0
    for _ in range(schedule.orders):
        moved += chain.run(np.full(schedule.thin, schedule.power), collect=True)
        orders.append(chain.order.copy())
        evidences.append(chain.log_evidence())
        tell(schedule.thin)
    sweeps = schedule.orders * schedule.thin
    return (
        np.stack(orders),
        np.array(evidences),
        chain.edges / sweeps,
        np.array(moved / (sweeps * len(chain.order))),
    )
