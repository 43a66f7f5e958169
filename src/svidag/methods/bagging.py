"""`bags=`: a plain fit, a mixture of resampled fits, or whichever the table asks for."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np

from svidag.methods.base import Method
from svidag.methods.mixing import FitBatch, mix, slimmed
from svidag.methods.probing import (
    FITS,
    check_and_probe,
    contradicting,
    mixture_mechanism,
    probe_all,
    rows_of_a_bag,
)
from svidag.methods.registry import METHODS
from svidag.methods.specifications import (
    MECHANISMS,
    RAW,
    PlannedFit,
    Specification,
    specifications,
)
from svidag.posterior import Posterior
from svidag.posterior.diagnostics import Level, Reason
from svidag.posterior.fit_check import FitCheck
from svidag.posterior.sensitivity import Sensitivity
from svidag.run.checkpoint import Checkpoint, SavedState
from svidag.run.deadline import Deadline
from svidag.run.workers import Workers

LEAST_ROWS = 10
"""Rows of a resample at least."""

STAGE = "mixture"
"""The stage of a checkpoint from which there are finished fits."""


def check_bags(bags: Any, bag_rows: Any, method: Method, mechanism: str) -> int | str | None:
    """What `bags` means for a method and a mechanism: a number of fits, ``"auto"``, or None.

    ``"auto"`` acts where everything else is left open too; what was asked for by name is run as
    asked.

    Examples
    --------
    >>> from svidag.methods import METHODS
    >>> check_bags("auto", None, METHODS["order-mcmc"], "auto")
    'auto'
    >>> check_bags("auto", None, METHODS["exact"], "auto") is None
    True
    """
    if bag_rows is not None and not _whole(bag_rows, LEAST_ROWS):
        raise ValueError(
            f"bag_rows must be a whole number of at least {LEAST_ROWS} rows; got {bag_rows!r}"
        )
    if bags is None or (_whole(bags, 0) and bags == 0):
        return None
    if isinstance(bags, str) and bags == "auto":
        return "auto" if mechanism == "auto" and _chooses(method) else None
    if not _whole(bags, 1):
        raise ValueError(f"bags must be 'auto', None or a whole number of fits; got {bags!r}")
    return int(bags)


def _chooses(method: Method) -> bool:
    """Whether the method decides about the mechanism, and knows those of a mixture."""
    return {"auto", *MECHANISMS[:2]} <= set(method.support.mechanisms)


def _whole(value: Any, least: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and int(value) >= least


@dataclasses.dataclass(eq=False)
class MixtureCheckpoint:
    """The finished fits of a mixture, and the checkpoint that holds them."""

    checkpoint: Checkpoint
    first: Posterior | None = None
    probes: dict[int, Posterior] = dataclasses.field(default_factory=dict)
    fits: dict[int, Posterior] = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, checkpoint: Checkpoint, saved: SavedState | None) -> MixtureCheckpoint:
        """What an earlier call kept, if it had come that far."""
        if saved is None or saved.stage != STAGE:
            return cls(checkpoint)
        return cls(checkpoint, **saved.state)

    def keep(self) -> None:
        """Write what is finished, unless that was done just now."""
        state = {"first": self.first, "probes": dict(self.probes), "fits": dict(self.fits)}
        self.checkpoint.keep(STAGE, lambda: state)


def fit_bags(
    batch: FitBatch,
    mechanism: str,
    bags: int,
    bag_rows: int | None,
    done: MixtureCheckpoint,
    identity: Any,
) -> Posterior:
    """A mixture of so many resampled fits, with specifications in turn."""
    started = time.perf_counter()
    rows = batch.problem.data.n_rows if bag_rows is None else bag_rows
    planned = batch.plan_bags(specifications(batch.method, mechanism), bags, rows)
    fits = batch.fit(planned, done.fits, done.keep, "fit of the mixture")
    done.checkpoint.write()
    return mix(batch, planned, fits, identity=identity, seconds=time.perf_counter() - started)


def fit_automatically(
    batch: FitBatch,
    mechanism: str,
    bag_rows: int | None,
    done: MixtureCheckpoint,
    saved: SavedState | None,
    identity: Any,
) -> Posterior:
    """Fit all rows; it stands if it explains the table and survives the probes, else a mixture.

    Where it fails its check or most sure arrows flip, the mixture is of resampled rows; where a few
    flip, of the fit and the probes that contradict it.
    """
    started = time.perf_counter()
    first = fit_whole_table(batch, mechanism, done, saved, identity)
    found = check_and_probe(batch, first, done.probes, done.keep)
    posterior = first
    if found.doubtful and not batch.deadline.passed():
        found = dataclasses.replace(found, mixed=True)
        doubted = found.failed_check or (found.check if found.mostly_flipped else None)
        if doubted is not None:
            lighter, planned = plan_small_bags(batch, first, doubted, bag_rows)
            fits = lighter.fit(planned, done.fits, done.keep, "fit of the mixture")
        else:
            planned, fits = _with_probes(batch, first, found, done)
        because = f", because {found.reason}"
        posterior = mix(batch, planned, fits, identity=identity, seconds=0.0, because=because)
    done.checkpoint.write()
    return with_sensitivity(posterior, found, time.perf_counter() - started)


def fit_whole_table(
    batch: FitBatch,
    mechanism: str,
    done: MixtureCheckpoint,
    saved: SavedState | None,
    identity: Any,
) -> Posterior:
    """The fit of all rows: the one that an earlier call finished, or else a new one."""
    if done.first is None:
        first = batch.fit_table(mechanism, done.checkpoint, saved, identity)
        done.first = dataclasses.replace(first, problem=None)
        done.keep()
    return dataclasses.replace(done.first, problem=batch.problem)


def plan_small_bags(
    batch: FitBatch, first: Posterior, check: FitCheck, bag_rows: int | None
) -> tuple[FitBatch, list[PlannedFit]]:
    """Fits of few rows each, for a table whose fit is in doubt; and the batch that runs them.

    The fits of that batch are cheaper than the first one (`Method.for_mixture`).
    """
    n = batch.problem.data.n_rows
    rows = rows_of_a_bag(check, n, len(first.names)) if bag_rows is None else min(bag_rows, n)
    choices = specifications(batch.method, mixture_mechanism(batch, first))
    lighter = dataclasses.replace(batch, method=batch.method.for_mixture())
    return lighter, batch.plan_bags(choices, FITS, rows)


def _with_probes(
    batch: FitBatch, first: Posterior, found: Sensitivity, done: MixtureCheckpoint
) -> tuple[list[PlannedFit], dict[int, Posterior]]:
    """The fit of all rows and the probes that contradict it: the parts of an equal mixture."""
    assert first.mechanism is not None
    everything = np.arange(batch.problem.data.n_rows)
    whole = PlannedFit(Specification(RAW, first.mechanism), everything, batch.seed)
    flips = np.flatnonzero(found.contradicted.any(axis=(1, 2)))
    planned = [whole, *(probe.planned for probe in contradicting(found, batch, first))]
    fits = [slimmed(first, batch.seed), *(done.probes[int(k)] for k in flips)]
    return planned, dict(enumerate(fits))


def with_sensitivity(posterior: Posterior, found: Sensitivity, seconds: float) -> Posterior:
    """The posterior with what became of sure arrows under other specifications."""
    assert posterior.diagnostics is not None
    diagnostics = dataclasses.replace(
        posterior.diagnostics,
        seconds=seconds,
        reasons=(*posterior.diagnostics.reasons, *_judge(found)),
        sensitivity=found,
    )
    return dataclasses.replace(posterior, diagnostics=diagnostics)


def _judge(found: Sensitivity) -> list[Reason]:
    """How far the answer depends on the model; a mixture says so itself."""
    if found.mixed or not found.sure:
        return []
    if found.doubtful:
        text = f"{found.sentence} A mixture of fits would say so: allow more `minutes`."
        return [Reason(Level.NOT, text)]
    if found.flipped.any():
        arrows = "; ".join(found.lines(most=3))
        text = f"{found.sentence} No more than 1 in 20 did, so that the fit stands, but not these"
        return [Reason(Level.CAREFUL, f"{text}: {arrows}.")]
    if not found.probes:
        return [Reason(Level.CAREFUL, found.sentence)]
    return [Reason(Level.TRUST, found.sentence)]


def probe_posterior(posterior: Posterior) -> Sensitivity:
    """Probe a posterior that no `bags="auto"` has probed, by the method that found it."""
    facts, problem = posterior.diagnostics, posterior.problem
    if facts is None or problem is None:
        raise ValueError("this posterior is without its table: it cannot be fitted otherwise")
    if facts.method not in METHODS or facts.mechanism == "mixture":
        raise ValueError(
            f"probes need one fit by one of {list(METHODS)}; this is by {facts.method!r}"
        )
    batch = FitBatch(
        problem,
        METHODS[facts.method].with_values(facts.settings),
        facts.graph_weights,
        facts.fingerprint.get("coarsen"),
        int(facts.fingerprint.get("seed", 0)),
        None,
        Workers.local(),
        Deadline(None),
        lambda *_: None,
    )
    return probe_all(batch, posterior)
