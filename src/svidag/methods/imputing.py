"""`missing="impute"`: fits of completed tables, and the mixture of their posteriors.

    p(A | D_known) = ∫ p(A | D) p(D_missing | D_known) dD_missing,

so that an average over completed tables is what missing cells ask for. Eight chains go from a
completed table to its fit, from there to a graph and parameters of its posterior, and by these to
new values of the missing cells, which are fitted again (data augmentation; Tanner & Wong 1987).
They start from tables that need no graph (`svidag.data.imputation`); the fits of these are not
part of the mixture. Cells that were drawn by a graph favour that graph, so that a long chain moves
slowly: many short ones are better calibrated than few long ones (docs/missing.md).
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from jaxtyping import Float64

from svidag.data.imputation import MissingCells
from svidag.mechanisms.environment_parameters import EnvironmentParameters
from svidag.methods.bagging import (
    MixtureCheckpoint,
    fit_whole_table,
    plan_small_bags,
    with_sensitivity,
)
from svidag.methods.mixing import FitBatch, mix, slimmed
from svidag.methods.probing import FITS, check_and_probe, contradicting
from svidag.methods.specifications import (
    RAW,
    PlannedFit,
    Specification,
    cycle_specifications,
    specifications,
)
from svidag.posterior import Posterior
from svidag.run.checkpoint import SavedState
from svidag.run.streams import Stream, child_seed, generator

CHAINS = 8
"""Chains of completed tables, whose fits run side by side."""
STEPS = 1
"""Tables of each chain that count, after the first."""
TABLES = CHAINS * STEPS
"""Fits of the mixture."""
STAGE = "fit of a completed table"


def tables_needed(fits: int | str | None) -> int:
    """How many tables are completed before any fit: one for each bag, or for each chain.

    Examples
    --------
    >>> tables_needed(6), tables_needed(None), tables_needed("auto")
    (6, 8, 16)
    """
    return int(fits) if isinstance(fits, int) else CHAINS if fits is None else FITS


def fit_imputed(
    batch: FitBatch,
    mechanism: str,
    fits: int | str | None,
    bag_rows: int | None,
    done: MixtureCheckpoint,
    saved: SavedState | None,
    identity: Any,
) -> Posterior:
    """The mixture over completed tables; with `bags`, each fit is of resampled rows of one."""
    started = time.perf_counter()
    if isinstance(fits, int):
        n = batch.problem.data.n_rows
        choices = specifications(batch.method, mechanism)
        bags = batch.plan_bags(choices, fits, n if bag_rows is None else bag_rows)
        planned = _of_completed_tables(batch, bags)
        found = batch.fit(planned, done.fits, done.keep, STAGE)
        done.checkpoint.write()
        return _mixture(batch, planned, found, identity, time.perf_counter() - started)
    first = fit_whole_table(batch, mechanism, done, saved, identity)
    if fits is None:
        planned, found, wanted = _augmented(batch, first, done)
        done.checkpoint.write()
        seconds = time.perf_counter() - started
        return _mixture(batch, planned, found, identity, seconds, wanted=wanted)
    return _automatic(batch, first, bag_rows, done, identity, started)


def _automatic(
    batch: FitBatch,
    first: Posterior,
    bag_rows: int | None,
    done: MixtureCheckpoint,
    identity: Any,
    started: float,
) -> Posterior:
    """As `bags="auto"` does it: the first completed table is checked and probed."""
    found = check_and_probe(batch, first, done.probes, done.keep)
    because, wanted = "", None
    if not found.doubtful:
        planned, fits, wanted = _augmented(batch, first, done)
    else:
        found = dataclasses.replace(found, mixed=True)
        because = f", because {found.reason}"
        if found.failed_check is not None:
            lighter, bags = plan_small_bags(batch, first, found.failed_check, bag_rows)
            planned = _of_completed_tables(batch, bags)
        else:
            probes = [probe.planned for probe in contradicting(found, batch, first)]
            planned, lighter = _alternating(batch, first, probes), batch
        fits = lighter.fit(planned, done.fits, done.keep, STAGE)
    done.checkpoint.write()
    posterior = _mixture(batch, planned, fits, identity, 0.0, because, wanted)
    return with_sensitivity(posterior, found, time.perf_counter() - started)


def _of_completed_tables(batch: FitBatch, bags: list[PlannedFit]) -> list[PlannedFit]:
    """The same resampled rows, each time of another completed table."""
    cells = _cells(batch).draws
    return [dataclasses.replace(one, cells=cells[k % len(cells)]) for k, one in enumerate(bags)]


def _alternating(batch: FitBatch, first: Posterior, probes: list[PlannedFit]) -> list[PlannedFit]:
    """Completed tables as the first fit and the probes that contradict it take them, in turn."""
    assert first.mechanism is not None
    whole = _whole(batch, first.mechanism, 0)
    choices = [whole, *probes]
    specs = cycle_specifications([one.specification for one in choices], TABLES)
    return [
        PlannedFit(
            spec,
            choices[k % len(choices)].rows,
            child_seed(batch.seed, Stream.FIT_SEEDS, k),
            _cells(batch).draws[k],
        )
        for k, spec in enumerate(specs)
    ]


def _augmented(
    batch: FitBatch, first: Posterior, done: MixtureCheckpoint
) -> tuple[list[PlannedFit], dict[int, Posterior], int]:
    """Fits of the tables of all chains, but for those that the chains start from; and how many.

    Where there was no time for others, those of the first tables count.
    """
    assert first.mechanism is not None
    done.fits.setdefault(0, slimmed(first, batch.seed))
    planned: list[PlannedFit] = []
    total = CHAINS * (STEPS + 1)
    for step in range(STEPS + 1):
        if step and batch.deadline.passed():
            break
        for chain in range(CHAINS):
            number = step * CHAINS + chain
            before = None if step == 0 else (planned[number - CHAINS], done.fits[number - CHAINS])
            start = _cells(batch).draws[chain]
            cells = start if before is None else _redrawn(batch, number, *before)
            planned.append(_whole(batch, first.mechanism, number, cells))
        part = dataclasses.replace(
            batch,
            deadline=batch.deadline.share(STEPS + 1 - step),
            report=lambda stage, count, _: batch.report(stage, count, total),
        )
        part.fit(planned, done.fits, done.keep, STAGE)
        if len(done.fits) < len(planned):  # the time is over
            break
    enough = len(done.fits) > CHAINS
    kept = [number for number in sorted(done.fits) if not enough or number >= CHAINS]
    found = dict(enumerate(done.fits[k] for k in kept))
    return [planned[k] for k in kept], found, CHAINS * STEPS if enough else total


def _whole(
    batch: FitBatch,
    mechanism: str,
    number: int,
    cells: Float64[np.ndarray, " cells"] | None = None,
) -> PlannedFit:
    rows = np.arange(batch.problem.data.n_rows)
    seed = child_seed(batch.seed, Stream.FIT_SEEDS, number)
    return PlannedFit(Specification(RAW, mechanism), rows, seed, cells)


def _redrawn(
    batch: FitBatch, number: int, planned: PlannedFit, fit: Posterior
) -> Float64[np.ndarray, " cells"]:
    """Missing cells by one graph and its parameters from a fit; else those of that fit."""
    # Few fits need densities of rows, and what they need takes long to import.
    from svidag.samplers.missing_cells import redraw_cells

    cells, problem = _cells(batch), batch.problem
    assert planned.cells is not None
    table = np.array(problem.values)
    table[cells.mask] = planned.cells
    if fit.mechanisms is None:
        return planned.cells
    seed = child_seed(batch.seed, Stream.MISSING_CELLS_BY_MECHANISM, number)
    graph = fit.graphs.sample(1, seed)
    rng = generator(seed, Stream.MISSING_CELLS_BY_MECHANISM)
    intervened, contexts = problem.data.intervened, problem.environments
    if contexts is None or not isinstance(fit.mechanisms, EnvironmentParameters):
        equations = fit.mechanisms.draw(graph, seed)
        coding = problem.data.coding
        return redraw_cells(equations, table, cells.mask, intervened, rng, coding=coding)[
            cells.mask
        ]
    for e in range(len(contexts.levels)):
        rows = contexts.labels == e
        equations = fit.mechanisms.draw_in(e, graph, seed)
        part = (table[rows], cells.mask[rows], intervened[rows])
        table[rows] = redraw_cells(equations, *part, rng, coding=problem.data.coding)
    return table[cells.mask]


def _mixture(
    batch: FitBatch,
    planned: list[PlannedFit],
    fits: dict[int, Posterior],
    identity: Any,
    seconds: float,
    because: str = "",
    wanted: int | None = None,
) -> Posterior:
    """The mixture, with the values that missing cells have in its fits."""
    cells = _cells(batch)
    words = (
        f", each with its own draw of the {int(cells.mask.sum()):,} missing cells "
        f"({cells.mask.mean():.0%} of the table; most of them, {cells.share.max():.0%}, in "
        f"{batch.problem.data.names[int(cells.share.argmax())]})"
    )
    posterior = mix(
        batch,
        planned,
        fits,
        identity=identity,
        seconds=seconds,
        because=because,
        note=words,
        wanted=wanted,
    )
    drawn = np.array([planned[k].cells for k in sorted(fits)])
    problem = dataclasses.replace(batch.problem, missing=MissingCells(cells.mask, drawn))
    return dataclasses.replace(posterior, problem=problem)


def _cells(batch: FitBatch) -> MissingCells:
    assert batch.problem.missing is not None
    return batch.problem.missing
