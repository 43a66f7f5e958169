"""Sampling orders: tables of parent sets from searches, orders from chains over these tables.

1. Two independent searches collect the parent sets that have weight (`svidag.search`).
2. These sets make up the tables, and chains move over orders with parent sets summed out.
3. A fresh search looks for parent sets outside the tables; if some carry weight, the tables take
   them in and the chains run again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from svidag.mechanisms.flexible_screen import ScreenedFlexible
from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import CachedScores, FamilyScores, LocalScores
from svidag.methods.base import Run
from svidag.methods.chain_diagnostics import chain_status, chain_values, judge_chains
from svidag.methods.mechanism_choice import IntegratedMechanism
from svidag.methods.search_diagnostics import MISSING_SHARE, SearchDiagnostics, judge_search
from svidag.posterior.diagnostics import Reason
from svidag.problem import Problem
from svidag.run.convergence import Agreement
from svidag.run.pools import Pool
from svidag.run.progress import duration
from svidag.run.settings import Settings, setting
from svidag.run.status import Status
from svidag.samplers.ladder import MANY, flattest_power, free_power, ladder
from svidag.samplers.order_chains import OrderChains, Schedule, run_chains
from svidag.samplers.relocation import MOVES
from svidag.samplers.sampled_graphs import SampledOrders
from svidag.scores import CountedScores, ParentSets, Weigher, compute_shares
from svidag.scores.spread_scores import SpreadScores
from svidag.scores.tables import MAX_TABULATED
from svidag.search.growth import Grower, GrowthSettings
from svidag.search.parent_set_tables import (
    ParentSetTables,
    chain_starts,
    grow_halves,
    join_halves,
    list_all_sets,
    search_outside_tables,
)

FINAL_CHAINS = 1
"""First part of the names of the chains' random streams; trial chains have another."""

MANY_VARIABLES = 30
"""With more variables than this, tables leave more sets out, to stay small and fast."""

MANY_VARIABLES_OMITTED_SHARE = (0.02, 0.1)
"""`omitted_share` of a problem with more than `MANY_VARIABLES`."""

SPARE_SHARE = 0.0005
"""`spare_share` of a problem with more than `svidag.samplers.ladder.MANY` variables."""

FEW_VARIABLES = 25
"""With fewer variables than this, there are more sweeps between kept orders."""

MAX_THIN = 100
"""Sweeps between kept orders at most."""

BURN_IN_ORDERS = 8
"""Burn-in takes at least the sweeps of this many kept orders, unless `thin` is set."""

MAX_LOOKUPS = 1.2e8
"""Look-ups of all chains together at most; one that must be summed counts as three."""

MIN_ORDERS = 120
"""Orders that each chain may keep, however slow its look-ups are."""

NETWORK_EXPAND_WITHIN = 4.0
"""`expand_within` where networks score every parent set, which takes most of the time."""

FLEXIBLE_SWEEPS = (16, 0)
"""`mechanism_sweeps` of flexible mechanisms: their noise may tell directions, which the Gaussian
model of the first searches cannot."""

MIXED_SWEEPS = (2, 0)
"""`mechanism_sweeps` of mixed mechanisms, whose form directs nothing: orders that are good by the
Gaussian model of the first searches are nearly as good by them."""

LIKELY_RATIO = 4.0
"""With more than `svidag.samplers.ladder.MANY` variables, networks score an addition to a parent
set only if the additive Gaussian model of the searches has at least this likelihood ratio for it:
one of seven that explain nothing has by chance. Each of the others costs a fit of a network."""

SKETCH_ERROR = 150.0
"""The error of a sketch grows with the rows: the first trial chains run at the power this / N."""


@dataclass(frozen=True)
class ChainSettings(Settings):
    """How chains over orders move, and when they end."""

    chains: int = setting(Schedule.chains, "Independent chains.", least=1)
    levels: int | None = setting(
        None, "Tempered replicas of each chain; by default from rows and variables.", least=1
    )
    flattest: float | None = setting(
        None, "Power of the target at the first replica; by default from rows.", above=0, most=1
    )
    burn_in: int = setting(100, "Sweeps thrown away at the start of each chain.", least=0)
    orders: int = setting(Schedule.orders, "Orders kept from each chain at most.", least=1)
    check_every: int = setting(
        Schedule.check_every,
        "Orders kept from each chain between two checks of agreement.",
        least=1,
    )
    thin: int | None = setting(
        None, "Sweeps from one kept order to the next; by default from variables.", least=1
    )
    agreement: float = setting(
        Agreement.tolerance,
        "Chains may end when halves of them differ by less than this on every arrow.",
        least=0,
        most=1,
    )
    effective_orders: float = setting(
        Agreement.effective,
        "Chains may end when their orders are worth this many independent ones.",
        least=0,
    )
    moves: str = setting(
        Schedule.moves, "Whether a node moves to any place, to the next, or not.", choices=MOVES
    )

    @property
    def rule(self) -> Agreement:
        """When chains may end before their budget does."""
        return Agreement.within(float(self.agreement), float(self.effective_orders))


@dataclass(frozen=True)
class SearchSettings(Settings):
    """How parent sets are searched for."""

    searches: int = setting(
        GrowthSettings.searches, "Independent searches over orders in each half.", least=1
    )
    search_sweeps: int = setting(GrowthSettings.search_sweeps, "Sweeps of a search.", least=1)
    rounds: int = setting(
        GrowthSettings.rounds, "Rounds in which each half may add parent sets.", least=0
    )
    capacity: int = setting(
        GrowthSettings.capacity, "Parent sets listed for a variable at most.", least=1
    )
    flatter: float = setting(
        GrowthSettings.flatter,
        "Power at which further orders are drawn to find parent sets between good orders.",
        above=0,
        most=1,
    )
    fresh_searches: int = setting(
        GrowthSettings.fresh_searches,
        "Searches after the chains at most; where the first finds new parent sets, chains run "
        "again before the next.",
        least=1,
    )


@dataclass(frozen=True)
class SamplingSettings(ChainSettings, SearchSettings):
    """How orders are sampled: by searches, then by chains."""


@dataclass(frozen=True, eq=False)
class SamplingResult:
    """Sampled orders with their tables, how sampling ended, and what was checked about it."""

    graphs: SampledOrders
    status: Status
    reasons: tuple[Reason, ...]
    details: SearchDiagnostics


@dataclass(frozen=True, eq=False)
class _Task:
    """What is to be sampled: a problem, its mechanism, the call it is for, resolved settings.

    `search_power` is the power at which searches begin.
    """

    problem: Problem
    run: Run
    mechanism: IntegratedMechanism
    schedule: Schedule
    growth: GrowthSettings
    search_power: float

    def keep(self, stage: str, **state: Any) -> None:
        self.run.checkpoint.keep(stage, lambda: state)


def sample_orders(
    problem: Problem, run: Run, mechanism: IntegratedMechanism, settings: SamplingSettings
) -> SamplingResult:
    """Search for parent sets and sample orders, again if a later search finds sets that matter."""
    schedule = _schedule(problem, settings)
    growth = _growth(problem, mechanism, schedule, settings)
    search_power = float(settings.flattest or free_power(len(problem.data.values)))
    task = _Task(problem, run, mechanism, schedule, growth, search_power)
    grower = _grower(task)
    resumed = run.resumed("tables", "chains")
    tables = _tabulate(task, grower) if resumed is None else resumed["tables"]
    unfinished = run.resumed("chains")
    chains = _run_chains(task, tables, None if unfinished is None else unfinished["chains"])
    checked = False  # whether a search has followed the last run of the chains
    while tables.fresh_searches < growth.fresh_searches and not run.deadline.passed():
        ended = tables.growth_ended
        tables, grown = search_outside_tables(grower, tables, chains, run.report)
        checked = True
        if not ended:
            break  # growth was cut short before, and would be again
        if grown is not None and tables.fresh_searches < growth.fresh_searches:
            tables, checked = grown, False
            task.keep("tables", tables=tables)
            chains = _run_chains(task, tables, None)
        elif grown is None and tables.searches_agree:
            break
    if not checked:
        tables = dataclasses.replace(tables, growth_ended=False)
    orders = np.concatenate(list(chains.orders))
    graphs = SampledOrders(tables.scores, orders, chains.edges.mean(axis=0))
    details = _diagnostics(tables, chains)
    status = _status(task, details, chains)
    reasons = (*judge_chains(details, status, budget="orders"), *judge_search(details))
    return SamplingResult(graphs, status, reasons, details)


def thin_by_default(m: int) -> int:
    """Sweeps between kept orders: more where variables are few, since a sweep takes m² look-ups.

    Examples
    --------
    >>> thin_by_default(8), thin_by_default(12), thin_by_default(18), thin_by_default(25)
    (100, 90, 26, 10)
    """
    return int(np.clip(Schedule.thin * (FEW_VARIABLES / m) ** 3, Schedule.thin, MAX_THIN))


def _schedule(problem: Problem, settings: ChainSettings) -> Schedule:
    rows, m = problem.data.values.shape
    flattest = settings.flattest or flattest_power(rows, m)
    flattest, levels = ladder(rows, m, flattest, settings.levels)
    thin = settings.thin or thin_by_default(m)
    return Schedule(
        chains=settings.chains,
        levels=levels,
        flattest=flattest,
        burn_in=settings.burn_in if settings.thin else max(settings.burn_in, BURN_IN_ORDERS * thin),
        orders=settings.orders,
        check_every=settings.check_every,
        thin=thin,
        stopping_rule=settings.rule,
        moves=settings.moves,
        resize=settings.levels is None and m > MANY,
    )


def _growth(
    problem: Problem, mechanism: IntegratedMechanism, schedule: Schedule, settings: SearchSettings
) -> GrowthSettings:
    rows, m = problem.data.values.shape
    growth = GrowthSettings(
        **{
            field.name: getattr(settings, field.name)
            for field in dataclasses.fields(SearchSettings)
        }
    )
    if mechanism.sketch is not None:
        growth = dataclasses.replace(growth, powers=_powers(rows))
    elif mechanism.name == "mixed":
        growth = dataclasses.replace(growth, mechanism_sweeps=MIXED_SWEEPS)
    elif mechanism.screened:
        growth = dataclasses.replace(growth, powers=_powers(rows), mechanism_sweeps=FLEXIBLE_SWEEPS)
    elif mechanism.name == "discrete":
        growth = dataclasses.replace(growth, mechanism_sweeps=FLEXIBLE_SWEEPS)
    elif mechanism.name != "linear":
        growth = dataclasses.replace(growth, expand_within=NETWORK_EXPAND_WITHIN)
    if m > MANY_VARIABLES:
        growth = dataclasses.replace(growth, omitted_share=MANY_VARIABLES_OMITTED_SHARE)
    if m > MANY:
        growth = dataclasses.replace(growth, spare_share=SPARE_SHARE)
    trial = dataclasses.replace(growth.trial, levels=schedule.levels, flattest=schedule.flattest)
    return dataclasses.replace(growth, trial=trial)


def _powers(rows: int) -> tuple[float, ...]:
    """Powers of trial chains: one at which errors of the sketch hardly matter, its root, and 1."""
    first = float(np.clip(SKETCH_ERROR / rows, 0.01, 0.3))
    return first, first**0.5, 1.0


def _grower(task: _Task) -> Grower:
    problem, run, mechanism = task.problem, task.run, task.mechanism
    blocks, scored = _blocks(problem, mechanism), [0]
    many = mechanism.name == "nonlinear" and len(problem.prior.names) > MANY

    def likely(nodes: np.ndarray, parents: np.ndarray) -> np.ndarray:
        return blocks.addition_ratios(nodes, parents) >= LIKELY_RATIO

    def count(families: int) -> None:
        scored[0] += families
        run.report("scoring parent sets", scored[0], None)

    def weigher(scores: FamilyScores) -> Weigher:
        if isinstance(scores, LocalScores):
            return Weigher(scores, problem.prior)
        if run.pool.remote:
            scores = _spread(scores, run.pool)
        counted = CachedScores(CountedScores(scores, count))
        return Weigher(counted, problem.prior, likely if many else None)

    return Grower(
        weigher(mechanism.scores),
        None if mechanism.sketch is None else weigher(mechanism.sketch),
        blocks,
        problem.prior,
        task.growth,
        run.seed,
        task.search_power,
        run.deadline,
        run.pool,
    )


def _blocks(problem: Problem, mechanism: IntegratedMechanism) -> GaussianBlocks:
    """The Gaussian model by which searches score."""
    if isinstance(mechanism.scores, LinearGaussian):
        return GaussianBlocks.linear(mechanism.scores)
    if isinstance(mechanism.scores, ScreenedFlexible):
        return mechanism.scores.curved
    data, values = problem.data, _without_shifts(problem)
    values = values if data.continuous.all() else _standard(values)
    return GaussianBlocks.additive(values, data.intervened, mechanism.weight)


def _spread(scores: FamilyScores, pool: Pool) -> FamilyScores:
    """The same scores by the workers of a pool; what screens families stays here."""
    if isinstance(scores, ScreenedFlexible):
        return dataclasses.replace(scores, elsewhere=SpreadScores(scores.mechanism, pool))
    return SpreadScores(scores, pool)


def _without_shifts(problem: Problem) -> Float[np.ndarray, "N m"]:
    """The values, less the means of their environments."""
    values, environments = problem.data.values, problem.environments
    if environments is None:
        return values
    member = environments.labels[:, None] == np.arange(len(environments.levels))
    return values - member @ ((member.T @ values) / member.sum(axis=0)[:, None])


def _standard(values: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "N m"]:
    """Codes in the scale that Gaussian models expect; orders need only be roughly right."""
    away = values - values.mean(axis=0)
    return away / np.maximum(away.std(axis=0), 1e-9)


def _tabulate(task: _Task, grower: Grower) -> ParentSetTables:
    tables = list_all_sets(grower, task.run.report)
    if tables is None:
        resumed = task.run.resumed("halves")
        halves = grow_halves(
            grower,
            report=task.run.report,
            keep=lambda halves: task.keep("halves", halves=halves),
            resumed=None if resumed is None else resumed["halves"],
        )
        tables = join_halves(grower, halves)
    task.keep("tables", tables=tables)
    return tables


def _run_chains(task: _Task, tables: ParentSetTables, resumed: OrderChains | None) -> OrderChains:
    run, schedule = task.run, _limit_orders(task.schedule, tables)
    stage = ["burn-in"]

    def estimate(seconds: float) -> None:
        stage[0] = f"moving orders, at most {duration(seconds)}"

    return run_chains(
        tables.scores,
        task.problem.prior,
        schedule,
        seed=run.seed,
        parts=(FINAL_CHAINS, tables.fresh_searches),
        starts=chain_starts(tables.starts, schedule.chains),
        report=lambda done: run.report(stage[0], done, schedule.sweeps),
        estimate=estimate,
        keep=lambda chains: task.keep("chains", tables=tables, chains=chains),
        resumed=resumed,
        stop=run.deadline.passed,
        pool=run.pool,
    )


def _limit_orders(schedule: Schedule, tables: ParentSetTables) -> Schedule:
    """The schedule, with fewer orders if look-ups are slow."""
    scores = tables.scores
    summed = np.mean([len(node.candidates) > MAX_TABULATED for node in scores.nodes])
    if not summed:
        return schedule
    replicas = schedule.chains * schedule.levels
    lookups_per_order = replicas * schedule.thin * scores.m**2 * (1 + 2 * summed)
    most = max(MIN_ORDERS, int(MAX_LOOKUPS / lookups_per_order))
    return dataclasses.replace(schedule, orders=min(schedule.orders, most))


def _status(task: _Task, found: SearchDiagnostics, chains: OrderChains) -> Status:
    over = task.run.deadline.passed()
    rule = task.schedule.stopping_rule
    status = chain_status(rule, chains.edges, chains.log_evidence, time_is_over=over)
    nothing_outside = found.searched_again and found.growth_ended and found.outside <= MISSING_SHARE
    if status is Status.CONVERGED and not (nothing_outside and found.searches_agree):
        return Status.TIME if over else Status.INCOMPLETE
    return status


def _diagnostics(tables: ParentSetTables, chains: OrderChains) -> SearchDiagnostics:
    return SearchDiagnostics(
        **chain_values(chains.edges, chains.orders, chains.log_evidence),
        sweeps=chains.sweeps,
        moved=chains.moved,
        exchanged=chains.exchanged,
        scored_sets=len(tables.sets),
        listed_sets=len(tables.scores.masks),
        table_bytes=tables.scores.bytes,
        candidates=tuple(len(node.candidates) for node in tables.scores.nodes),
        left_out=tables.left_out,
        missed=tables.missed,
        search_gaps=tables.search_gaps,
        searches_agree=tables.searches_agree,
        searched_again=tables.fresh_searches,
        outside=tables.outside,
        growth_ended=tables.growth_ended,
        sketched_share=_sketched_share(tables.sets, chains),
        rounds=tuple(dataclasses.asdict(done) for done in tables.rounds),
    )


def _sketched_share(sets: ParentSets, chains: OrderChains) -> float:
    """The mean share of sets that only the sketch has scored, for the worst node."""
    if not np.isnan(sets.exact).any():
        return 0.0
    orders = chains.orders.reshape(-1, sets.m)
    share = compute_shares(sets, orders[:: max(1, len(orders) // 100)]).mean
    open_rows = np.isnan(sets.exact)
    return float(np.bincount(sets.nodes[open_rows], share[open_rows], sets.m).max())
