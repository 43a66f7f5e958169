"""The posterior by tables and order moves: screen, tabulate, run chains, and grow where it presses.

The first tables rest on a screening of candidate parents and, where the mechanism is dear, on a
cheaper stand-in for it. Short chains then draw orders and graphs from the posterior under these
tables. Parent sets that carry weight there are scored by the mechanism itself; a variable that such
a graph would gladly take as a further parent but that was screened out becomes a candidate. When
nothing presses any more, the tables are ready for the long chains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from svidag.inference.chains import OrderChains, Schedule, draw_graphs, run_chains
from svidag.inference.convergence import Agreement
from svidag.mechanisms.local import FamilyScores
from svidag.prior import EdgePrior
from svidag.scores import (
    CountedScores,
    NodeTable,
    ScoreTables,
    TableSizeError,
    fill,
    grow,
    neighbours,
    pressing,
    screen,
    sketched_share,
    weighty,
)

Report = Callable[[int], None]
"""Is told how many pairs of a node and a parent set have been scored."""

CELL_BYTES = 48
"""Memory for a cell of a table while the tables are put together."""


@dataclass(frozen=True)
class TableSettings:
    """How the tables come about.

    Attributes
    ----------
    fewest, most
        Bounds on the number of candidate parents of a node.
    table_gib
        Memory that the tables may take, in GiB; they take 48 · 2^candidates bytes for each node.
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
    table_gib: float = 2.0
    slack: float = 6.0
    margin: float = 7.0
    tolerance: float = 0.005
    gain: float = -1.0
    doubt: float = 3.0
    powers: tuple[float, ...] = (1.0,)
    rounds: int = 8
    trial: Schedule = field(
        default_factory=lambda: Schedule(
            chains=2, burn_in=100, orders=100, thin=5, enough=Agreement(tolerance=0.0)
        )
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
class Growth:
    """Tables on their way: those of the nodes so far, and what each finished round found."""

    nodes: tuple[NodeTable, ...]
    rounds: tuple[Round, ...] = ()


@dataclass(frozen=True, eq=False)
class Tabulated:
    """The final tables and how they came about.

    Attributes
    ----------
    tables
        The tables.
    rounds
        What each round of growth found.
    """

    tables: ScoreTables
    rounds: tuple[Round, ...]

    @property
    def growth(self) -> Growth:
        """The same, as growth that has come to its end."""
        return Growth(self.tables.nodes, self.rounds)

    @property
    def settled(self) -> bool:
        """Whether the posterior asked for nothing more that it could get."""
        return bool(self.rounds) and self.rounds[-1].settled

    @property
    def crowded(self) -> int:
        """Candidates that the posterior still asked for and that had no room."""
        last = self.rounds[-1] if self.rounds else Round(1.0, 0, 0, 0)
        return last.pressing - last.added

    def sketched(self, chains: OrderChains) -> float:
        """The largest mean probability, over nodes, of a parent set that was only sketched."""
        if not any(np.isfinite(node.sketch).any() for node in self.tables.nodes):
            return 0.0
        return sketched_share(self.tables, np.concatenate(list(chains.orders)))


def tabulate(
    mechanism: FamilyScores,
    prior: EdgePrior,
    settings: TableSettings,
    *,
    sketch: FamilyScores | None = None,
    seed: int,
    report: Report | None = None,
    keep: Callable[[Growth], None] | None = None,
    begun: Growth | None = None,
) -> Tabulated:
    """Build the tables and grow them until nothing presses.

    `keep` is given what there is whenever something was added. `begun` is what a call with the same
    other arguments gave to it before it was cut off.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> from svidag.prior import Prior
    >>> x = np.random.default_rng(0).standard_normal((99, 3))
    >>> x[:, 1] += x[:, 0]
    >>> model, beliefs = LinearGaussian.from_values(x), Prior().bind("abc")
    >>> found = tabulate(model, beliefs, TableSettings(), seed=0)
    >>> found.settled, found.tables.scored
    (True, 12)
    """
    counter = _Counter(report or _ignore)
    exact = CountedScores(mechanism, counter.add)
    cheap = None if sketch is None else CountedScores(sketch, counter.add)
    builder = _Builder(exact, cheap, prior, settings, seed, keep or _ignore)
    growth = begun or builder.first()
    tables = builder.grown(growth)
    rounds = growth.rounds
    while len(rounds) < settings.rounds and not (rounds and rounds[-1].settled):
        tables, done = builder.improve(tables, rounds)
        rounds = (*rounds, done)
    return Tabulated(tables, rounds)


@dataclass(frozen=True, eq=False)
class _Builder:
    """What stays the same from round to round."""

    mechanism: FamilyScores
    sketch: FamilyScores | None
    prior: EdgePrior
    settings: TableSettings
    seed: int
    keep: Callable[[Growth], None]

    @property
    def cheapest(self) -> FamilyScores:
        """The stand-in, or the mechanism where there is none."""
        return self.mechanism if self.sketch is None else self.sketch

    def first(self) -> Growth:
        """Blank tables over the screened candidates."""
        size = {"fewest": self.settings.fewest, "most": self.settings.most}
        chosen = screen(self.cheapest, self.prior, **size)
        self.make_room([len(candidates) for candidates in chosen])
        return self.kept(Growth(tuple(NodeTable.empty(candidates) for candidates in chosen)))

    def make_room(self, candidates: Sequence[int]) -> None:
        """Refuse tables with so many candidates for each node before any memory is asked for."""
        gib = sum(CELL_BYTES * 2.0**k for k in candidates) / 2**30
        if gib > self.settings.table_gib:
            raise TableSizeError(
                f"tables over up to {max(candidates)} candidate parents of each of "
                f"{len(candidates)} variables would take {gib:.3g} GiB, "
                f"more than table_gib={self.settings.table_gib:g}"
            )

    def kept(self, growth: Growth) -> Growth:
        """The same, after whoever keeps it has had a look."""
        self.keep(growth)
        return growth

    def grown(self, growth: Growth) -> ScoreTables:
        """Tables in which every set that is not negligible is extended."""
        full = grow(
            self.cheapest,
            self.prior,
            growth.nodes,
            slack=self.settings.slack,
            sketch=self.sketch is not None,
            keep=lambda nodes: self.keep(replace(growth, nodes=tuple(nodes))),
        )
        return ScoreTables.assemble(full, self.prior)

    def improve(self, tables: ScoreTables, rounds: tuple[Round, ...]) -> tuple[ScoreTables, Round]:
        """Refine and widen the tables by what trial chains show."""
        number = len(rounds)
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
        nodes = tables.nodes
        if done.refined or done.added:
            self.make_room([len(a.candidates) + len(b) for a, b in zip(nodes, added, strict=True)])
            exact = fill(self.mechanism, self.prior, nodes, wanted)
            nodes = tuple(node.widen(new) for node, new in zip(exact, added, strict=True))
            tables = self.grown(self.kept(Growth(nodes, (*rounds, done))))
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


class _Counter:
    """Adds up what several sources have answered."""

    def __init__(self, report: Report) -> None:
        self._report, self.total = report, 0

    def add(self, answers: int) -> None:
        self.total += answers
        self._report(self.total)


def _ignore(news: object) -> None:
    pass
