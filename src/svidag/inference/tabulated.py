"""The posterior by tables and order moves: screen, tabulate, run chains, and grow where it presses.

The first tables rest on a screening of candidate parents and, where the mechanism is dear, on a
cheaper stand-in for it. Short chains then draw orders and graphs from the posterior under these
tables. Parent sets that carry weight there are scored by the mechanism itself; a variable that such
a graph would gladly take as a further parent but that was screened out becomes a candidate. When
nothing presses any more, the long chains run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from svidag.inference.chains import OrderChains, Schedule, draw_graphs, run_chains
from svidag.mechanisms.local import FamilyScores
from svidag.prior import EdgePrior
from svidag.scores import (
    NodeTable,
    ScoreTables,
    fill,
    grow,
    neighbours,
    pressing,
    screen,
    sketched_share,
    weighty,
)

Report = Callable[[str, int, int | None], None]
"""Is told the stage, how much of it is done, and how much there is, if known."""


@dataclass(frozen=True)
class TableSettings:
    """How the tables come about.

    Attributes
    ----------
    fewest, most
        Bounds on the number of candidate parents of a node. A table takes 32 · 2^candidates bytes.
    slack
        How many nats below its best subset a parent set may fall and still be extended.
    margin
        A sketched parent set is made exact when, given an order drawn by the trial chains, it comes
        within this many nats of the sum over all sets.
    tolerance
        No more is made exact when no node's mean probability of a sketched set exceeds this.
    gain
        A variable that was screened out returns when adding it to a drawn graph gains more than
        this many nats, the prior's odds included.
    doubt
        How many nats a stand-in may be wrong about such a gain.
    powers
        The trial chains of each round target p(D | order)^τ. A sketch may be wrong by many nats;
        flatter rounds before the first with τ = 1 keep it from hiding what it underrates. The last
        value serves all further rounds.
    rounds
        How many rounds there may be.
    trial
        The chains that draw those orders and graphs.
    """

    fewest: int = 11
    most: int = 16
    slack: float = 6.0
    margin: float = 7.0
    tolerance: float = 0.005
    gain: float = -1.0
    doubt: float = 3.0
    powers: tuple[float, ...] = (1.0,)
    rounds: int = 8
    trial: Schedule = field(
        default_factory=lambda: Schedule(chains=2, burn_in=300, orders=100, thin=10)
    )


@dataclass(frozen=True)
class Round:
    """What trial chains at a power of p(D | order) asked for, and what they got.

    Attributes
    ----------
    power
        The power τ.
    refined
        Parent sets that were scored by the mechanism itself.
    added
        Variables that became candidates.
    pressing
        Variables that would have gained, whether or not there was room for them.
    """

    power: float
    refined: int
    added: int
    pressing: int

    @property
    def settled(self) -> bool:
        """Whether the posterior itself asked for nothing that it could get."""
        return self.power == 1.0 and self.refined == 0 and self.added == 0


@dataclass(frozen=True, eq=False)
class Tabulated:
    """Tables, the chains that ran on them, and how the tables came about.

    Attributes
    ----------
    tables, chains
        The final tables and the long chains.
    rounds
        What each round of growth found.
    sketched
        The largest mean probability, over nodes, that the parent set is one that was only sketched.
    """

    tables: ScoreTables
    chains: OrderChains
    rounds: tuple[Round, ...]
    sketched: float


def infer(
    mechanism: FamilyScores,
    prior: EdgePrior,
    settings: TableSettings,
    schedule: Schedule,
    *,
    sketch: FamilyScores | None = None,
    seed: int,
    report: Report | None = None,
) -> Tabulated:
    """Build the tables, grow them until nothing presses, and run the chains.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> from svidag.prior import Prior
    >>> x = np.random.default_rng(0).standard_normal((99, 3))
    >>> x[:, 1] += x[:, 0]
    >>> found = infer(
    ...     LinearGaussian.from_values(x),
    ...     Prior().bind("abc"),
    ...     TableSettings(),
    ...     Schedule(orders=20),
    ...     seed=0,
    ... )
    >>> edges = found.chains.edges.mean(axis=0)
    >>> bool(edges[0, 1] + edges[1, 0] > 0.99)
    True
    """
    builder = _Builder(mechanism, sketch, prior, settings, seed, report or _ignore)
    tables = builder.first()
    rounds: list[Round] = []
    while len(rounds) < settings.rounds and not (rounds and rounds[-1].settled):
        tables, done = builder.improve(tables, len(rounds))
        rounds.append(done)
    chains = run_chains(
        tables,
        prior,
        schedule,
        seed=seed,
        report=lambda done: builder.report("moving orders", done, schedule.sweeps),
    )
    kept = np.concatenate(list(chains.orders))
    share = sketched_share(tables, kept) if sketch is not None else 0.0
    return Tabulated(tables, chains, tuple(rounds), share)


@dataclass(frozen=True, eq=False)
class _Builder:
    """What stays the same from round to round."""

    mechanism: FamilyScores
    sketch: FamilyScores | None
    prior: EdgePrior
    settings: TableSettings
    seed: int
    report: Report

    @property
    def cheapest(self) -> FamilyScores:
        """The stand-in, or the mechanism where there is none."""
        return self.mechanism if self.sketch is None else self.sketch

    def first(self) -> ScoreTables:
        """Tables over the screened candidates."""
        self.report("screening", 0, None)
        size = {"fewest": self.settings.fewest, "most": self.settings.most}
        chosen = screen(self.cheapest, self.prior, **size)
        return self.grown([NodeTable.empty(candidates) for candidates in chosen])

    def grown(self, nodes: Sequence[NodeTable]) -> ScoreTables:
        """Tables in which every set that is not negligible is extended."""
        full = grow(
            self.cheapest,
            self.prior,
            nodes,
            slack=self.settings.slack,
            sketch=self.sketch is not None,
            report=lambda scored: self.report("scoring parent sets", scored, None),
        )
        return ScoreTables.assemble(full, self.prior)

    def improve(self, tables: ScoreTables, number: int) -> tuple[ScoreTables, Round]:
        """Refine and widen the tables by what trial chains show."""
        power = self.settings.powers[min(number, len(self.settings.powers) - 1)]
        trial = replace(self.settings.trial, power=power)
        chains = run_chains(tables, self.prior, trial, seed=self.seed + number)
        orders = np.concatenate(list(chains.orders))
        wanted = self._heavy(tables, orders)
        gains = np.full(self.prior.allowed.shape, -np.inf)
        if power == 1.0:
            graphs = draw_graphs(tables, orders, seed=self.seed + number)
            gains = self._gains(tables, graphs, orders)
            if any(map(len, wanted)):
                near = neighbours(tables, graphs, orders)
                wanted = [np.union1d(a, b) for a, b in zip(wanted, near, strict=True)]
        added = _returning(tables, gains, self.settings.most)
        done = Round(
            power, sum(map(len, wanted)), sum(map(len, added)), int(np.isfinite(gains).sum())
        )
        if done.refined or done.added:
            self.report("refining parent sets", done.refined, None)
            nodes = fill(self.mechanism, self.prior, tables.nodes, wanted)
            widened = [node.widen(new) for node, new in zip(nodes, added, strict=True)]
            tables = self.grown(widened)
        return tables, done

    def _gains(self, tables, graphs, orders) -> Float[np.ndarray, "m m"]:
        """What screened-out parents would gain; a stand-in says which are worth asking about."""
        ask = partial(pressing, prior=self.prior, tables=tables, graphs=graphs, orders=orders)
        among = None
        if self.sketch is not None:
            doubt = self.settings.gain - self.settings.doubt
            among = np.isfinite(ask(self.sketch, gain=doubt))
        return ask(self.mechanism, gain=self.settings.gain, among=among)

    def _heavy(self, tables, orders) -> list[Int[np.ndarray, " _"]]:
        """Sketched sets that carry weight, as long as sketches matter at all."""
        if self.sketch is None or sketched_share(tables, orders) < self.settings.tolerance:
            return [np.empty(0, dtype=np.int64)] * tables.m
        return weighty(tables, orders, margin=self.settings.margin)


def _returning(
    tables: ScoreTables, gains: Float[np.ndarray, "m m"], most: int
) -> list[Int[np.ndarray, " _"]]:
    """For each node the variables that press, best first, as far as there is room."""
    added = []
    for j, node in enumerate(tables.nodes):
        ranked = np.argsort(-gains[:, j], kind="stable")[: np.isfinite(gains[:, j]).sum()]
        added.append(ranked[: max(0, most - len(node.candidates))])
    return added


def _ignore(stage: str, done: int, total: int | None) -> None:
    pass
