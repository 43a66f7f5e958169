"""Probes of a fit under other specifications, and what follows where its sure arrows flip.

The rule sees the table and fits of it, never a true graph. Its constants were chosen on synthetic
tables with broken assumptions and checked on others (docs/mixtures.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from svidag.methods.base import Method
from svidag.methods.mixing import FitBatch
from svidag.methods.specifications import MARGINS, MECHANISMS, RANK, RAW, PlannedFit, Specification
from svidag.posterior import Posterior
from svidag.posterior.residuals import gaussian_p_value
from svidag.posterior.sensitivity import SURE, Sensitivity
from svidag.run.streams import Stream, child_seed, generator

FITS = 16
"""Fits of a mixture that `bags="auto"` makes."""

PROBE_ROWS = 1000
"""Rows of a probe at most: it is to find out whether arrows flip, not how sure they are."""

GAUSSIAN = 0.05
"""Probability below which residuals may not be Gaussian; a good fit is there one time in twenty."""

ROWS = 100.0
"""Rows of each fit where all sure arrows flip; where a share s of them does, it is this over s."""

FEWEST, MOST = 100, 500
"""Rows of each fit at least and at most: sixteen larger ones would take many times the fit."""


@dataclass(frozen=True, eq=False)
class Probe:
    """A fit under another specification, and what is other about it."""

    change: str
    words: str
    planned: PlannedFit


def probes(batch: FitBatch, first: Posterior) -> list[Probe]:
    """Other margins; a resample; the simplest mechanism, if the evidence against it is in doubt.

    The simplest mechanism is no probe of a fit that leaves Gaussian residuals: such a fit has found
    bends that are there, and a straight line only misses them. Residuals that are not Gaussian may
    have passed for bends. A mechanism that can do more than the chosen one is no probe either: the
    evidence of the two was compared before, and it takes far longer than the fit itself.
    """
    mechanism = first.mechanism
    assert mechanism is not None
    n, seed = batch.problem.data.n_rows, batch.seed
    rng = generator(seed, Stream.PROBE_SEEDS)
    some = np.arange(n) if n <= PROBE_ROWS else np.sort(rng.choice(n, PROBE_ROWS, replace=False))
    drawn = batch.resample(min(n, PROBE_ROWS), FITS)
    asked = [
        ("margins", "rank-Gaussian margins", Specification(RANK, mechanism), some),
        ("resample", "resampled rows", Specification(RAW, mechanism), drawn),
    ]
    if mechanism != MECHANISMS[0] and _doubtful(first):
        simple = MECHANISMS[0]
        asked.append(("mechanism", f"{simple} mechanisms", Specification(RAW, simple), some))
    return [
        Probe(change, words, PlannedFit(spec, rows, child_seed(seed, Stream.PROBE_SEEDS, k)))
        for k, (change, words, spec, rows) in enumerate(asked)
    ]


def _doubtful(first: Posterior) -> bool:
    return first.mechanisms is None or gaussian_p_value(first) < GAUSSIAN


def _cheaper(method: Method) -> Method:
    """The method with half the hidden units, a quarter of the time: another model, but no worse."""
    units = method.values().get("units")
    return method if units is None else method.with_values({"units": max(1, units // 2)})


def probe(
    batch: FitBatch,
    first: Posterior,
    done: dict[int, Posterior],
    keep: Callable[[], None],
) -> Sensitivity:
    """Run the probes, as far as the time goes; none where no arrow is sure."""
    edges = first.graphs.edge_probabilities()
    none = Sensitivity(first.names, edges, (), (), np.zeros((0, *edges.shape)))
    if not (edges > SURE).any() or batch.deadline.passed():
        return none
    asked = probes(batch, first)
    cheaper = dataclasses.replace(batch, method=_cheaper(batch.method))
    found = cheaper.fit([one.planned for one in asked], done, keep, "probing other models")
    numbers = sorted(found)
    return dataclasses.replace(
        none,
        changes=tuple(asked[k].change for k in numbers),
        probes=tuple(asked[k].words for k in numbers),
        probed=np.stack([found[k].graphs.edge_probabilities() for k in numbers]),
    )


def mixed_specifications(found: Sensitivity, mechanism: str) -> tuple[Specification, ...]:
    """What the mixture varies beside the rows: margins and mechanisms, if arrows flip with them.

    Examples
    --------
    >>> fit, probe = np.zeros((2, 2)), np.zeros((2, 2))
    >>> fit[0, 1], probe[1, 0] = 0.99, 0.8
    >>> found = Sensitivity(("a", "b"), fit, ("margins",), ("ranks",), probe[None])
    >>> [str(one) for one in mixed_specifications(found, "linear")]
    ['raw margins, linear', 'rank-Gaussian margins, linear']
    """
    causes = set(found.causes)
    margins = MARGINS if causes & {"margins", "mechanism"} else (RAW,)
    mechanisms = (MECHANISMS[0], mechanism) if "mechanism" in causes else (mechanism,)
    return tuple(Specification(m, f) for f in mechanisms for m in margins)


def rows_of_a_bag(found: Sensitivity, n: int) -> int:
    """How many rows each fit sees: the fewer, the more of the sure arrows the worst probe flips.

    Log evidence is proportional to rows, that of a misfit as well as that of an effect. Where a
    share s of what N rows make sure is wrong under another model, evidence must shrink until what
    the misfit says is no longer sure: to ROWS/s rows, within FEWEST and MOST.

    Examples
    --------
    >>> fit, probe = np.zeros((2, 2)), np.zeros((2, 2))
    >>> fit[0, 1], probe[1, 0] = 0.99, 0.8
    >>> rows_of_a_bag(Sensitivity(("a", "b"), fit, ("margins",), ("ranks",), probe[None]), 1000)
    100
    """
    share = found.contradicted.sum(axis=(1, 2)).max() / found.sure
    return int(min(n, np.clip(round(ROWS / share), FEWEST, MOST)))
