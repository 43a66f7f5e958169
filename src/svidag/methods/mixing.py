"""A batch of fits of one problem, side by side, and the mixture of their posteriors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from svidag.data.resampling import usable_resample
from svidag.io.tree import Encoder
from svidag.mechanisms.environments import STRUCTURES
from svidag.methods.base import Method
from svidag.methods.single import fit_problem
from svidag.methods.specifications import RAW, PlannedFit, Specification, cycle_specifications
from svidag.posterior import GraphDistribution, Posterior
from svidag.posterior.diagnostics import Diagnostics, Level, Reason
from svidag.posterior.mixture import MixtureDetails, MixtureGraphs, MixtureParameters
from svidag.problem import Problem
from svidag.run.checkpoint import Checkpoint, SavedState
from svidag.run.deadline import Deadline
from svidag.run.pools import Shared
from svidag.run.side_by_side import run_side_by_side
from svidag.run.status import Status
from svidag.run.streams import Stream, child_seed, generator
from svidag.run.workers import Workers
from svidag.samplers.sampled_graphs import VisitedGraphs

LARGE = 4_000_000
"""Bytes of one fit's distribution of graphs from which the mixture keeps draws instead."""

KEPT_DRAWS = 1000
"""Graphs kept from such a fit; its edge probabilities are kept as they are."""


@dataclass(frozen=True, eq=False)
class FitBatch:
    """Fits of one problem by one method: what they share, and how they are run."""

    problem: Problem
    method: Method
    graph_weights: str
    coarsen: float | None
    seed: int
    groups: Int[np.ndarray, " N"] | None
    workers: Workers
    deadline: Deadline
    report: Callable[..., None]

    def plan_bags(
        self, choices: Sequence[Specification], count: int, rows: int
    ) -> list[PlannedFit]:
        """Plan `count` fits of resampled rows; they take the specifications one after another."""
        return [
            PlannedFit(
                specification, self.resample(rows, k), child_seed(self.seed, Stream.FIT_SEEDS, k)
            )
            for k, specification in enumerate(cycle_specifications(choices, count))
        ]

    def resample(self, rows: int, number: int) -> Int[np.ndarray, " rows"]:
        """The rows of resample `number`."""
        rng = generator(self.seed, Stream.RESAMPLES, number)
        return usable_resample(self.problem.data, self.groups, rows, rng, self.problem.environments)

    def fit(
        self,
        planned: Sequence[PlannedFit],
        done: dict[int, Posterior],
        keep: Callable[[], None],
        stage: str,
    ) -> dict[int, Posterior]:
        """The posterior of each planned fit, by its number; fewer if the time limit was reached."""
        pool = self.workers.fits
        together = max(1, min(pool.size, len(planned)))

        def timed(number: int) -> TimedFit:
            waves = math.ceil((len(planned) - number) / together)
            return TimedFit(planned[number], self.deadline.share(waves).minutes)

        basis = FitBasis(self.problem, self.method, self.graph_weights, self.coarsen)
        return run_side_by_side(
            fit_planned,
            timed,
            len(planned),
            pool=pool,
            shared=Shared(basis),
            done=done,
            finished=keep,
            report=lambda count: self.report(stage, count, len(planned)),
            enough=self.deadline.passed,
        )

    def fit_table(
        self,
        mechanism: str,
        checkpoint: Checkpoint,
        saved: SavedState | None,
        identity: Mapping[str, Any],
    ) -> Posterior:
        """The posterior of the whole table as it is, saved to a checkpoint on the way."""
        return fit_problem(
            self.problem,
            self.method,
            mechanism=mechanism,
            graph_weights=self.graph_weights,
            coarsen=self.coarsen,
            seed=self.seed,
            report=self.report,
            deadline=self.deadline,
            checkpoint=checkpoint,
            saved=saved,
            identity=identity,
            pool=self.workers.parts,
        )


class FitBasis(NamedTuple):
    """What the fits of a batch share."""

    problem: Problem
    method: Method
    graph_weights: str
    coarsen: float | None


class TimedFit(NamedTuple):
    """One fit of a batch, and the minutes that it may take."""

    planned: PlannedFit
    minutes: float | None


def fit_planned(basis: FitBasis, own: TimedFit, alive: Callable[..., None]) -> Posterior:
    """The posterior of one fit without its table and traces, as a task."""
    planned = own.planned
    found = fit_problem(
        planned.problem(basis.problem),
        basis.method,
        mechanism=planned.specification.mechanism,
        graph_weights=basis.graph_weights,
        coarsen=basis.coarsen,
        seed=planned.seed,
        report=alive,
        deadline=Deadline(own.minutes),
    )
    return slimmed(found, planned.seed, on_scale=planned.specification.margins == RAW)


def slimmed(posterior: Posterior, seed: int, *, on_scale: bool = True) -> Posterior:
    """What a mixture keeps of a fit: parameters only if they are in the units of the table."""
    assert posterior.diagnostics is not None
    return dataclasses.replace(
        posterior,
        graphs=_condensed(posterior.graphs, seed),
        mechanisms=posterior.mechanisms if on_scale else None,
        diagnostics=dataclasses.replace(posterior.diagnostics, details=None),
        problem=None,
    )


def _condensed(graphs: GraphDistribution, seed: int) -> GraphDistribution:
    encoder = Encoder()
    try:
        encoder.encode(graphs)
    except ValueError:  # of a type that cannot be saved, and has no size that we know
        return graphs
    if sum(array.nbytes for array in encoder.arrays.values()) <= LARGE:
        return graphs
    return VisitedGraphs(graphs.sample(KEPT_DRAWS, seed), graphs.edge_probabilities())


def mix(
    batch: FitBatch,
    planned: Sequence[PlannedFit],
    fits: dict[int, Posterior],
    *,
    identity: dict[str, Any],
    seconds: float,
    because: str = "",
    note: str = "",
    wanted: int | None = None,
) -> Posterior:
    """The mixture with equal weights: evidence is as overconfident as the models are.

    `wanted` is the number of fits without a time limit, if it is not the number of those planned.
    """
    wanted = len(planned) if wanted is None else wanted
    numbers = sorted(fits)
    found = [fits[k] for k in numbers]
    graphs = MixtureGraphs(tuple(fit.graphs for fit in found), _equal(len(found)))
    scaled = [fit for fit in found if fit.mechanisms is not None]
    parameters = None
    if scaled:
        parameters = MixtureParameters(
            tuple(fit.mechanisms for fit in scaled if fit.mechanisms is not None),
            tuple(fit.graphs for fit in scaled),
            _equal(len(scaled)),
        )
    facts = [fit.diagnostics for fit in found if fit.diagnostics is not None]
    names = {fact.mechanism for fact in facts}
    spread = graphs.spread()
    rows = round(np.mean([len(planned[k].rows) for k in numbers]))
    details = MixtureDetails(
        fits=len(found),
        bag_rows=rows,
        specifications=tuple(_settings(planned[k], fits[k]) for k in numbers),
        statuses=tuple(str(fact.status) for fact in facts),
        on_scale=len(scaled),
        largest_spread=float(spread.max()),
        spread=spread,
    )
    worst = max((fact.status for fact in facts), key=list(Status).index)
    cut = len(found) < wanted
    diagnostics = Diagnostics(
        method=batch.method.name,
        mechanism=names.pop() if len(names) == 1 else "mixture",
        status=Status.TIME if cut else worst,
        seconds=seconds,
        reasons=tuple(_reasons(facts, details, wanted, because, note)),
        settings=batch.method.identity(),
        fingerprint=identity,
        graph_weights=batch.graph_weights,
        details=details,
        changes=_mean_changes(facts),
    )
    return Posterior(
        batch.problem.data.names,
        graphs,
        parameters,
        diagnostics=diagnostics,
        problem=batch.problem,
    )


def _mean_changes(facts: Sequence[Diagnostics]) -> dict[str, tuple[float, ...]] | None:
    """The mean over fits of how probably mechanisms change with the environment."""
    found = [fact.changes for fact in facts if fact.changes is not None]
    if not found:
        return None
    names = sorted({name for each in found for name in each}, key=STRUCTURES.index)
    nothing = (0.0,) * len(next(iter(found[0].values())))
    return {
        name: tuple(np.mean([each.get(name, nothing) for each in found], axis=0).tolist())
        for name in names
    }


def _settings(planned: PlannedFit, fit: Posterior) -> dict[str, Any]:
    return {
        "margins": planned.specification.margins,
        "mechanism": fit.mechanism,
        "rows": len(planned.rows),
        "seed": planned.seed,
    }


def _reasons(
    facts: Sequence[Diagnostics], details: MixtureDetails, wanted: int, because: str, note: str
) -> list[Reason]:
    what = f"A mixture of {details.fits} fits of {details.bag_rows:,} rows{note}"
    reasons = [Reason(Level.CAREFUL if because else Level.TRUST, f"{what}{because}.")]
    if details.fits < wanted:
        text = f"The time limit was reached when {details.fits} of {wanted} fits were done."
        reasons.append(Reason(Level.CAREFUL, text))
    if details.on_scale < details.fits:
        reasons.append(
            Reason(
                Level.TRUST,
                f"Arrows are averaged over all fits; effects rest on the {details.on_scale} of "
                f"them that used the columns in the units of the table.",
            )
        )
    for level in (Level.NOT, Level.CAREFUL):
        doubtful = [r for fact in facts for r in fact.reasons[:] if r.level is level]
        count = sum(any(r.level is level for r in fact.reasons) for fact in facts)
        if doubtful:
            text = f"{count} of {details.fits} fits report: {doubtful[0].text}"
            # A few fits of many that fell short move a mean by little.
            reasons.append(Reason(level if 2 * count >= details.fits else Level.CAREFUL, text))
    return reasons


def _equal(count: int) -> np.ndarray:
    return np.full(count, 1 / count)
