"""`edges="table"`: parents from tables of parent sets, orders from chains."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import CachedScores, FamilyScores, LocalScores
from svidag.methods.figures import (
    AGREEMENT,
    agreement,
    chain_figures,
    stated,
    warn_of_doubts,
)
from svidag.methods.ladder import ladder
from svidag.methods.task import Found, Task
from svidag.samplers.order_chains import OrderChains, Schedule, run_chains
from svidag.samplers.sampled_graphs import SampledOrders
from svidag.scores import CountedScores, ParentSets, Weigher, shares
from svidag.scores.tables import MOST_LAID_OUT
from svidag.search.growth import Grower, GrowthSettings
from svidag.search.halves import (
    Tabulated,
    chain_starts,
    grow_halves,
    join,
    look_outside,
)

MANY = 30
"""Variables from which tables leave more out, for else they would be large and slow."""

SPARED = (0.02, 0.1)
"""`spared` from there on."""

LOOKS = 2
"""How often fresh searches look outside the tables; between them chains may begin again."""

WORK = 1.2e8
"""Look-ups that chains may take in all, those that must be summed counted threefold."""

FEWEST_ORDERS = 120
"""Orders kept from each chain that they may take in any case."""

BURN_IN = 100
"""Sweeps thrown away by chains that begin where searches ended."""

EXPENSIVE = 4.0
"""`expand` where every parent set is scored by a network, which takes most of the time."""

SKETCH_NATS = 150.0
"""A sketch errs in proportion to the rows: this over N is the power of the first trial."""

_SCHEDULE = frozenset(f.name for f in dataclasses.fields(Schedule)) - {"power", "enough"}
_GROWTH = frozenset(f.name for f in dataclasses.fields(GrowthSettings)) - {"trial"}

SETTINGS = _SCHEDULE | AGREEMENT | _GROWTH
"""What may be set."""


def run(task: Task, settings: dict[str, Any]) -> Found:
    """Tabulate the evidence of parent sets and move orders, until nothing is found outside."""
    schedule, growth = _settings(task, settings)
    grower = _grower(task, growth, schedule)
    begun = task.begun("tables", "chains")
    made = _tabulated(task, grower) if begun is None else begun["tables"]
    moving = task.begun("chains")
    chains = _chains(
        task, made, _affordable(schedule, made), None if moving is None else moving["chains"]
    )
    checked = False
    while made.searched < LOOKS and not task.deadline.passed():
        ended = made.settled
        made, grown = look_outside(grower, made, chains, task.report)
        checked = True
        if not ended:
            break  # growth was cut short before, and would be again
        if grown is not None and made.searched < LOOKS:
            made, checked = grown, False
            _keep(task, "tables", tables=made)
            chains = _chains(task, made, _affordable(schedule, made), None)
        elif grown is None and made.confirmed:
            break
    if not checked:  # what was found last has not been looked beyond
        made = dataclasses.replace(made, settled=False)
    distribution = SampledOrders(
        made.tables, np.concatenate(list(chains.orders)), chains.edges.mean(axis=0)
    )
    figures = {"edges": "table", **_figures(task, made, chains, schedule)}
    warn_of_doubts(figures)
    return Found(distribution, figures, _chosen(schedule, growth))


def _keep(task: Task, stage: str, **state: Any) -> None:
    task.checkpoint.keep(stage, lambda: state)


def _affordable(schedule: Schedule, made: Tabulated) -> Schedule:
    """The schedule, with fewer orders where look-ups are slow."""
    tables = made.tables
    summed = np.mean([len(node.candidates) > MOST_LAID_OUT for node in tables.nodes])
    order = schedule.chains * schedule.levels * schedule.thin * tables.m**2 * (1 + 2 * summed)
    most = max(FEWEST_ORDERS, int(WORK / order)) if summed else schedule.orders
    return dataclasses.replace(schedule, orders=min(schedule.orders, most))


def _tabulated(task: Task, grower: Grower) -> Tabulated:
    begun = task.begun("halves")
    halves = grow_halves(
        grower,
        report=task.report,
        keep=lambda halves: _keep(task, "halves", halves=halves),
        begun=None if begun is None else begun["halves"],
    )
    made = join(grower, halves)
    _keep(task, "tables", tables=made)
    return made


def _chains(
    task: Task, made: Tabulated, schedule: Schedule, begun: OrderChains | None
) -> OrderChains:
    stage = ["burn-in"]

    def estimate(seconds: float) -> None:
        stage[0] = f"moving orders, at most {duration(seconds)}"

    return run_chains(
        made.tables,
        task.problem.prior,
        schedule,
        seed=(task.seed, made.searched),
        starts=chain_starts(made.starts, schedule.chains),
        report=lambda done: task.report(stage[0], done, schedule.sweeps),
        estimate=estimate,
        keep=lambda chains: _keep(task, "chains", tables=made, chains=chains),
        begun=begun,
        stop=task.deadline.passed,
    )


def duration(seconds: float) -> str:
    """A time in words.

    Examples
    --------
    >>> duration(48.2), duration(200.0), duration(9000.0)
    ('49 s', '4 min', '2.5 h')
    """
    if seconds < 100:
        return f"{np.ceil(seconds):.0f} s"
    return f"{np.ceil(seconds / 60):.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _grower(task: Task, settings: GrowthSettings, schedule: Schedule) -> Grower:
    prior, data, scored = task.problem.prior, task.problem.data, [0]

    def count(families: int) -> None:
        scored[0] += families
        task.report("scoring parent sets", scored[0], None)

    def weigher(scores: FamilyScores) -> Weigher:
        local = scores if isinstance(scores, LocalScores) else None
        return Weigher(local or CachedScores(CountedScores(scores, count)), prior)

    if isinstance(task.scores, LinearGaussian):
        blocks = GaussianBlocks.linear(task.scores)
    else:
        blocks = GaussianBlocks.additive(data.values, data.intervened)
    return Grower(
        weigher(task.scores),
        None if task.sketch is None else weigher(task.sketch),
        blocks,
        prior,
        settings,
        task.seed,
        schedule.flattest,
        task.deadline,
    )


def _settings(task: Task, given: dict[str, Any]) -> tuple[Schedule, GrowthSettings]:
    rows, m = task.problem.data.values.shape
    own = {name: value for name, value in given.items() if name in _SCHEDULE}
    own = {"burn_in": BURN_IN, **own, **ladder(rows, m, given)}
    schedule = Schedule(**own, enough=agreement(given))
    growth = GrowthSettings()
    if task.sketch is not None:
        growth = dataclasses.replace(growth, powers=_powers(rows))
    elif task.mechanism != "linear":
        growth = dataclasses.replace(growth, expand=EXPENSIVE)
    if m > MANY:
        growth = dataclasses.replace(growth, spared=SPARED)
    trial = dataclasses.replace(growth.trial, levels=schedule.levels, flattest=schedule.flattest)
    own = {name: value for name, value in given.items() if name in _GROWTH}
    return schedule, dataclasses.replace(growth, trial=trial, **own)


def _powers(rows: int) -> tuple[float, ...]:
    """From flat enough to forgive the sketch, half way, and then the posterior itself."""
    first = float(np.clip(SKETCH_NATS / rows, 0.01, 0.3))
    return first, first**0.5, 1.0


def _chosen(schedule: Schedule, growth: GrowthSettings) -> dict[str, Any]:
    """Every setting as one would pass it."""
    named = {**dataclasses.asdict(growth), **dataclasses.asdict(schedule)}
    named |= {"edges": "table", **stated(schedule.enough)}
    return {name: named[name] for name in sorted(SETTINGS | {"edges"})}


def _figures(
    task: Task, made: Tabulated, chains: OrderChains, schedule: Schedule
) -> dict[str, Any]:
    """What the fit reports about its own quality."""
    figures = chain_figures(chains.edges, chains.orders, chains.log_evidence, rule=schedule.enough)
    nothing_outside = made.searched and made.settled and made.outside <= GrowthSettings.missing
    if figures["status"] == "converged" and not (nothing_outside and made.confirmed):
        figures["status"] = "incomplete"
    if task.deadline.passed() and figures["status"] != "converged":
        figures["status"] = "time"
    return {
        **figures,
        "moved": chains.moved,
        "exchanged": chains.exchanged,
        "sweeps": chains.sweeps,
        "scored_sets": len(made.sets),
        "listed_sets": len(made.tables.masks),
        "table_bytes": made.tables.bytes,
        "candidates": tuple(len(node.candidates) for node in made.tables.nodes),
        "left_out": made.left_out,
        "missed": made.missed,
        "search_gaps": made.gaps,
        "searches_agree": made.confirmed,
        "searched_again": made.searched,
        "outside": made.outside,
        "settled": made.settled,
        "sketched_share": _sketched(made.sets, chains),
        "rounds": tuple(dataclasses.asdict(done) for done in made.rounds),
    }


def _sketched(sets: ParentSets, chains: OrderChains) -> float:
    """The mean share of sets that only the stand-in has scored, of the node where it is largest."""
    if not np.isnan(sets.exact).any():
        return 0.0
    orders = chains.orders.reshape(-1, sets.m)
    held = shares(sets, orders[:: max(1, len(orders) // 100)]).mean
    open_rows = np.isnan(sets.exact)
    return float(np.bincount(sets.nodes[open_rows], held[open_rows], sets.m).max())
