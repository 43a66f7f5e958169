"""The posterior by tables and order moves: screen, tabulate, run chains, and grow where it presses.

The first tables rest on a screening of candidate parents. Short chains then draw graphs from the
posterior under these tables; every variable that such a graph would gladly take as a further parent
but that was screened out becomes a candidate, and the tables grow. When nothing presses any more,
the long chains run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from svidag.inference.chains import OrderChains, Schedule, draw_graphs, run_chains
from svidag.prior import EdgePrior
from svidag.scores import FamilyScores, ScoreTables, pressing, screen, tabulate

Report = Callable[[str, int, int | None], None]
"""Is told the stage, how much of it is done, and how much there is, if known."""


@dataclass(frozen=True)
class TableSettings:
    """How large the tables may become.

    Attributes
    ----------
    fewest, most
        Bounds on the number of candidate parents of a node. A table takes 16 · 2^candidates bytes.
    slack
        How many nats below its best subset a parent set may fall and still be extended.
    gain
        A variable that was screened out returns when adding it to a drawn graph gains more than
        this many nats, the prior's odds included.
    rounds
        How often the tables may grow in that way.
    trial
        The chains that draw those graphs.
    """

    fewest: int = 11
    most: int = 16
    slack: float = 6.0
    gain: float = -1.0
    rounds: int = 4
    trial: Schedule = Schedule(chains=2, burn_in=300, orders=50, thin=10)


@dataclass(frozen=True, eq=False)
class Tabulated:
    """Tables, the chains that ran on them, and how the tables came about.

    Attributes
    ----------
    tables, chains
        The final tables and the long chains.
    grown
        Candidates added in each round of growth.
    pressing
        The pairs that would still have gained when the rounds or the room ran out.
    """

    tables: ScoreTables
    chains: OrderChains
    grown: tuple[int, ...]
    pressing: int


def infer(
    mechanism: FamilyScores,
    prior: EdgePrior,
    settings: TableSettings,
    schedule: Schedule,
    *,
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
    tell = report if report is not None else _ignore
    tell("screening", 0, None)
    candidates = screen(mechanism, prior, fewest=settings.fewest, most=settings.most)

    def grow(candidates: list[np.ndarray], start: ScoreTables | None) -> ScoreTables:
        return tabulate(
            mechanism,
            prior,
            candidates,
            slack=settings.slack,
            start=start,
            report=lambda scored: tell("scoring parent sets", scored, None),
        )

    tables = grow(candidates, None)
    grown: list[int] = []
    gains = _press(mechanism, prior, tables, settings, seed=seed)
    while len(grown) < settings.rounds and (added := _returning(tables, gains, settings.most)):
        candidates = [
            np.concatenate([old, new]) for old, new in zip(tables.candidates, added, strict=True)
        ]
        grown.append(sum(map(len, added)))
        tables = grow(candidates, tables)
        gains = _press(mechanism, prior, tables, settings, seed=seed)
    chains = run_chains(
        tables,
        prior,
        schedule,
        seed=seed,
        report=lambda done: tell("moving orders", done, schedule.sweeps),
    )
    return Tabulated(tables, chains, tuple(grown), int(np.isfinite(gains).sum()))


def _press(mechanism, prior, tables, settings, *, seed) -> Float[np.ndarray, "m m"]:
    """The gains of screened-out parents in graphs drawn by the trial chains."""
    if all((tables.bits[:, j] > 0).sum() == prior.allowed[:, j].sum() for j in range(tables.m)):
        return np.full(prior.allowed.shape, -np.inf)
    orders = np.concatenate(list(run_chains(tables, prior, settings.trial, seed=seed).orders))
    graphs = draw_graphs(tables, orders, seed=seed)
    return pressing(mechanism, prior, tables, graphs, orders, gain=settings.gain)


def _returning(
    tables: ScoreTables, gains: Float[np.ndarray, "m m"], most: int
) -> list[Int[np.ndarray, " _"]]:
    """For each node the variables that press, best first, as far as there is room; [] if none."""
    added = []
    for j in range(tables.m):
        ranked = np.argsort(-gains[:, j], kind="stable")[: np.isfinite(gains[:, j]).sum()]
        added.append(ranked[: max(0, most - len(tables.candidates[j]))])
    return added if any(map(len, added)) else []


def _ignore(stage: str, done: int, total: int | None) -> None:
    pass
