"""Sampling orders: parent sets from searches, orders from chains, until nothing is found outside.

1. Two halves search for the parent sets that matter, each on its own (`svidag.search`).
2. Tables of these sets are made, and chains move over orders with parent sets summed out.
3. A fresh search looks for parent sets outside the tables; if some carry weight, the tables take
   them in and the chains run again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from svidag.mechanisms.flexible_screen import ScreenedFlexible
from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import CachedScores, FamilyScores, LocalScores
from svidag.methods.base import Run
from svidag.methods.chain_diagnostics import (
    ChainDiagnostics,
    chain_status,
    chain_values,
    judge_chains,
)
from svidag.methods.mechanism_choice import Integrated
from svidag.posterior.diagnostics import Level, Reason, diagnostic
from svidag.problem import Problem
from svidag.run.convergence import Agreement
from svidag.run.settings import Settings, setting
from svidag.run.status import Status
from svidag.samplers.ladder import ladder
from svidag.samplers.order_chains import OrderChains, Schedule, run_chains
from svidag.samplers.relocation import MOVES
from svidag.samplers.sampled_graphs import SampledOrders
from svidag.scores import CountedScores, ParentSets, Weigher, shares
from svidag.scores.tables import MAX_TABULATED
from svidag.search.growth import Grower, GrowthSettings
from svidag.search.halves import (
    ParentSetTables,
    chain_starts,
    grow_halves,
    join_halves,
    list_all_sets,
    search_outside_tables,
)

CHAINS = 1
"""Tells the streams of the chains from those of trial chains."""

MANY = 30
"""Variables from which tables leave more out, for else they would be large and slow."""

OMITTED_SHARE = (0.02, 0.1)
"""`omitted_share` of a problem with that many variables."""

MANY_SWEEPS = 25
"""Variables below which there are more sweeps between kept orders, at most `MOST_THIN`."""

MOST_THIN = 100
"""Sweeps between kept orders at most."""

BURN_IN = 8
"""Burn-in takes as long as this many kept orders at least, if their distance is not set."""

MEAN_SHARE = 0.04
"""Expected mean error of edge probabilities at which chains may end, as a share of `agreement`.
Four chains tell their own error only up to a factor of two or three."""

LOOKS = 2
"""How often fresh searches look outside the tables; between them chains may begin again."""

WORK = 1.2e8
"""Look-ups that chains may take in all, those that must be summed counted threefold."""

FEWEST_ORDERS = 120
"""Orders kept from each chain that they may take in any case."""

EXPENSIVE = 4.0
"""`expand_within` where every parent set is scored by a network, which takes most of the time."""

DIRECTED_SWEEPS = (16, 0)
"""`mechanism_sweeps` where noise tells directions that the Gaussian models of searches do not."""

SKETCH_ERROR = 150.0
"""A sketch errs in proportion to the rows: this over N is the power of the first trial."""

MISSING = GrowthSettings.missing_share
"""Share of the probability of a variable's parents that may be missing or left out."""


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
    look: int = setting(
        Schedule.look, "Orders kept from each chain between two checks of agreement.", least=1
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
        tolerance = float(self.agreement)
        return Agreement(tolerance, float(self.effective_orders), MEAN_SHARE * tolerance)


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


@dataclass(frozen=True, eq=False)
class SearchDiagnostics(ChainDiagnostics):
    """What chains report, and what the searches found in and outside the tables."""

    sweeps: int = diagnostic("Sweeps of each chain")
    moved: Float[np.ndarray, " chains"] = diagnostic("Share of moves that changed the order")
    exchanged: Float[np.ndarray, " pairs"] = diagnostic(
        "Share of exchanges between neighbouring replicas that were accepted"
    )
    scored_sets: int = diagnostic("Parent sets scored")
    listed_sets: int = diagnostic("Parent sets in the tables")
    table_bytes: int = diagnostic("Bytes of the tables")
    candidates: tuple[int, ...] = diagnostic("Candidate parents, by variable")
    left_out: float = diagnostic("Share of parent sets left out of the tables, worst variable")
    missed: tuple[float, ...] = diagnostic(
        "Share of parent sets that each half of the searches found alone"
    )
    search_gaps: tuple[float, ...] = diagnostic(
        "Log evidence by which each search fell short of the best"
    )
    searches_agree: bool = diagnostic("Two independent searches came to graphs of the same weight")
    searched_again: int = diagnostic("Searches after the chains")
    outside: float = diagnostic(
        "Share of parent sets that the last search found outside the tables"
    )
    growth_ended: bool = diagnostic("No more parent sets that matter were found at the end")
    sketched_share: float = diagnostic("Share of parent sets scored by a smaller network alone")
    rounds: tuple[dict[str, Any], ...] = diagnostic("Rounds of the searches")


@dataclass(frozen=True, eq=False)
class Sampled:
    """Orders with their tables, how sampling ended, and how that is judged."""

    graphs: SampledOrders
    status: Status
    reasons: tuple[Reason, ...]
    details: SearchDiagnostics


@dataclass(frozen=True, eq=False)
class _Sampling:
    """A problem, its mechanism and what surrounds the fit, with all settings resolved."""

    problem: Problem
    run: Run
    mechanism: Integrated
    schedule: Schedule
    growth: GrowthSettings

    def keep(self, stage: str, **state: Any) -> None:
        self.run.checkpoint.keep(stage, lambda: state)


def sample_orders(
    problem: Problem,
    run: Run,
    mechanism: Integrated,
    chain_settings: ChainSettings,
    search_settings: SearchSettings,
) -> Sampled:
    """Collect parent sets and move orders, until a fresh search finds nothing outside."""
    schedule = _schedule(problem, chain_settings)
    growth = _growth(problem, mechanism, schedule, search_settings)
    sampling = _Sampling(problem, run, mechanism, schedule, growth)
    grower = _grower(sampling)
    resumed = run.resumed("tables", "chains")
    made = _tabulate(sampling, grower) if resumed is None else resumed["tables"]
    moving = run.resumed("chains")
    chains = _run_chains(sampling, made, None if moving is None else moving["chains"])
    checked = False
    while made.fresh_searches < LOOKS and not run.deadline.passed():
        ended = made.growth_ended
        made, grown = search_outside_tables(grower, made, chains, run.report)
        checked = True
        if not ended:
            break  # growth was cut short before, and would be again
        if grown is not None and made.fresh_searches < LOOKS:
            made, checked = grown, False
            sampling.keep("tables", tables=made)
            chains = _run_chains(sampling, made, None)
        elif grown is None and made.searches_agree:
            break
    if not checked:  # what was found last has not been looked beyond
        made = dataclasses.replace(made, growth_ended=False)
    orders = np.concatenate(list(chains.orders))
    graphs = SampledOrders(made.tables, orders, chains.edges.mean(axis=0))
    details = _diagnostics(made, chains)
    status = _status(sampling, details, chains)
    reasons = (*judge_chains(details, status), *judge_search(details))
    return Sampled(graphs, status, reasons, details)


def judge_search(found: SearchDiagnostics) -> Iterator[Reason]:
    """What the searches say about graphs that the chains could not see."""
    if not found.searched_again:
        yield Reason(
            Level.NOT,
            "The time was over before a fresh search could look for possible parents that are "
            "missing; some arrows may be wrong. Allow more `minutes`.",
        )
    elif not found.growth_ended or found.outside > MISSING:
        yield Reason(
            Level.NOT,
            f"A fresh search still found possible parents that the fit had not considered (up to "
            f"{max(found.outside, MISSING):.0%} of the probability of a variable's parents): "
            "arrows may be missing. Allow more `rounds` or `minutes`.",
        )
    elif not found.searches_agree:
        yield Reason(
            Level.NOT,
            "Only one of several independent searches came to these graphs; better ones may exist. "
            "Allow more `searches` or `search_sweeps`.",
        )
    else:
        yield Reason(
            Level.TRUST,
            "Independent searches came to the same graphs, and a fresh one found no possible "
            "parents that the fit had missed.",
        )
    if found.left_out > MISSING:
        yield Reason(
            Level.CAREFUL,
            f"Up to {found.left_out:.0%} of the probability of a variable's parents is spread over "
            "very many sets, each of them improbable, that were left out.",
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


def thin_by_default(m: int) -> int:
    """Sweeps between kept orders: more where variables are few, since a sweep takes m² look-ups.

    Examples
    --------
    >>> thin_by_default(8), thin_by_default(12), thin_by_default(18), thin_by_default(25)
    (100, 90, 26, 10)
    """
    return int(np.clip(Schedule.thin * (MANY_SWEEPS / m) ** 3, Schedule.thin, MOST_THIN))


def _schedule(problem: Problem, settings: ChainSettings) -> Schedule:
    rows, m = problem.data.values.shape
    flattest, levels = ladder(rows, m, settings.flattest, settings.levels)
    thin = settings.thin or thin_by_default(m)
    return Schedule(
        chains=settings.chains,
        levels=levels,
        flattest=flattest,
        burn_in=settings.burn_in if settings.thin else max(settings.burn_in, BURN_IN * thin),
        orders=settings.orders,
        look=settings.look,
        thin=thin,
        stopping_rule=settings.rule,
        moves=settings.moves,
    )


def _growth(
    problem: Problem, mechanism: Integrated, schedule: Schedule, settings: SearchSettings
) -> GrowthSettings:
    rows, m = problem.data.values.shape
    growth = GrowthSettings(**{f.name: getattr(settings, f.name) for f in _SEARCH})
    if mechanism.sketch is not None:
        growth = dataclasses.replace(growth, powers=_powers(rows))
    elif mechanism.screened:
        growth = dataclasses.replace(growth, powers=_powers(rows), mechanism_sweeps=DIRECTED_SWEEPS)
    elif mechanism.name != "linear":
        growth = dataclasses.replace(growth, expand_within=EXPENSIVE)
    if m > MANY:
        growth = dataclasses.replace(growth, omitted_share=OMITTED_SHARE)
    trial = dataclasses.replace(growth.trial, levels=schedule.levels, flattest=schedule.flattest)
    return dataclasses.replace(growth, trial=trial)


_SEARCH = dataclasses.fields(SearchSettings)


def _powers(rows: int) -> tuple[float, ...]:
    """From flat enough to forgive the sketch, half way, and then the posterior itself."""
    first = float(np.clip(SKETCH_ERROR / rows, 0.01, 0.3))
    return first, first**0.5, 1.0


def _grower(sampling: _Sampling) -> Grower:
    problem, run, mechanism = sampling.problem, sampling.run, sampling.mechanism
    scored = [0]

    def count(families: int) -> None:
        scored[0] += families
        run.report("scoring parent sets", scored[0], None)

    def weigher(scores: FamilyScores) -> Weigher:
        local = scores if isinstance(scores, LocalScores) else None
        return Weigher(local or CachedScores(CountedScores(scores, count)), problem.prior)

    if isinstance(mechanism.scores, LinearGaussian):
        blocks = GaussianBlocks.linear(mechanism.scores)
    elif isinstance(mechanism.scores, ScreenedFlexible):
        blocks = mechanism.scores.curved
    else:
        data = problem.data
        values = _without_shifts(problem)
        blocks = GaussianBlocks.additive(values, data.intervened, mechanism.weight)
    return Grower(
        weigher(mechanism.scores),
        None if mechanism.sketch is None else weigher(mechanism.sketch),
        blocks,
        problem.prior,
        sampling.growth,
        run.seed,
        sampling.schedule.flattest,
        run.deadline,
    )


def _without_shifts(problem: Problem) -> Float[np.ndarray, "N m"]:
    """The values, less the means of their environments."""
    values, environments = problem.data.values, problem.environments
    if environments is None:
        return values
    member = environments.labels[:, None] == np.arange(len(environments.levels))
    return values - member @ ((member.T @ values) / member.sum(axis=0)[:, None])


def _tabulate(sampling: _Sampling, grower: Grower) -> ParentSetTables:
    made = list_all_sets(grower, sampling.run.report)
    if made is None:
        resumed = sampling.run.resumed("halves")
        halves = grow_halves(
            grower,
            report=sampling.run.report,
            keep=lambda halves: sampling.keep("halves", halves=halves),
            resumed=None if resumed is None else resumed["halves"],
        )
        made = join_halves(grower, halves)
    sampling.keep("tables", tables=made)
    return made


def _run_chains(
    sampling: _Sampling, made: ParentSetTables, resumed: OrderChains | None
) -> OrderChains:
    run, schedule = sampling.run, _affordable(sampling.schedule, made)
    stage = ["burn-in"]

    def estimate(seconds: float) -> None:
        stage[0] = f"moving orders, at most {duration(seconds)}"

    return run_chains(
        made.tables,
        sampling.problem.prior,
        schedule,
        seed=run.seed,
        parts=(CHAINS, made.fresh_searches),
        starts=chain_starts(made.starts, schedule.chains),
        report=lambda done: run.report(stage[0], done, schedule.sweeps),
        estimate=estimate,
        keep=lambda chains: sampling.keep("chains", tables=made, chains=chains),
        resumed=resumed,
        stop=run.deadline.passed,
    )


def _affordable(schedule: Schedule, made: ParentSetTables) -> Schedule:
    """The schedule, with fewer orders where look-ups are slow."""
    tables = made.tables
    summed = np.mean([len(node.candidates) > MAX_TABULATED for node in tables.nodes])
    order = schedule.chains * schedule.levels * schedule.thin * tables.m**2 * (1 + 2 * summed)
    most = max(FEWEST_ORDERS, int(WORK / order)) if summed else schedule.orders
    return dataclasses.replace(schedule, orders=min(schedule.orders, most))


def _status(sampling: _Sampling, found: SearchDiagnostics, chains: OrderChains) -> Status:
    over = sampling.run.deadline.passed()
    rule = sampling.schedule.stopping_rule
    status = chain_status(rule, chains.edges, chains.log_evidence, time_is_over=over)
    nothing_outside = found.searched_again and found.growth_ended and found.outside <= MISSING
    if status is Status.CONVERGED and not (nothing_outside and found.searches_agree):
        return Status.TIME if over else Status.INCOMPLETE
    return status


def _diagnostics(made: ParentSetTables, chains: OrderChains) -> SearchDiagnostics:
    return SearchDiagnostics(
        **chain_values(chains.edges, chains.orders, chains.log_evidence),
        sweeps=chains.sweeps,
        moved=chains.moved,
        exchanged=chains.exchanged,
        scored_sets=len(made.sets),
        listed_sets=len(made.tables.masks),
        table_bytes=made.tables.bytes,
        candidates=tuple(len(node.candidates) for node in made.tables.nodes),
        left_out=made.left_out,
        missed=made.missed,
        search_gaps=made.search_gaps,
        searches_agree=made.searches_agree,
        searched_again=made.fresh_searches,
        outside=made.outside,
        growth_ended=made.growth_ended,
        sketched_share=_sketched(made.sets, chains),
        rounds=tuple(dataclasses.asdict(done) for done in made.rounds),
    )


def _sketched(sets: ParentSets, chains: OrderChains) -> float:
    """The mean share of sets that only the stand-in has scored, of the node where it is largest."""
    if not np.isnan(sets.exact).any():
        return 0.0
    orders = chains.orders.reshape(-1, sets.m)
    held = shares(sets, orders[:: max(1, len(orders) // 100)]).mean
    open_rows = np.isnan(sets.exact)
    return float(np.bincount(sets.nodes[open_rows], held[open_rows], sets.m).max())
