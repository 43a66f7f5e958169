"""Whether a fit stands: its residuals, and probes of its sure arrows under other specifications.

The rule sees the table and fits of it, never a true graph. Its constants were chosen on synthetic
tables and on half of a collection of real pairs of variables, and checked on others
(docs/mixtures.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from svidag.methods.base import Method
from svidag.methods.column_kinds import DISCRETE, MIXED
from svidag.methods.mechanism_building import MechanismBuilder
from svidag.methods.mixing import FitBatch
from svidag.methods.specifications import MECHANISMS, RANK, RAW, PlannedFit, Specification
from svidag.posterior import Posterior
from svidag.posterior.fit_check import FitCheck, check_fit
from svidag.posterior.sensitivity import Sensitivity
from svidag.problem import Problem
from svidag.run.streams import Stream, child_seed, generator

FITS = 16
"""Fits of a mixture that `bags="auto"` makes."""

PROBE_ROWS, FLEXIBLE_ROWS = 1000, 500
"""Rows of a probe at most, and of one with flexible mechanisms: it is to find out whether arrows
flip, not how sure they are."""

DECISIVE = 60.0
"""Log evidence by which a fit that passes its check must explain more than a probe, on the rows of
the probe, for the probe's contradictions not to count. The check overlooks a misfit of about 20 in
a pair of variables, however many rows there are: less than a few times that decides nothing."""

MISFIT_ROWS = 50.0
"""Rows of each fit where the check fails: this over the excess of dependence between residuals."""

MOST_VARIABLES = 30
"""Variables up to which fits of a mixture take flexible mechanisms in turn; with more of them,
which may be collinear, sixteen such fits take many minutes, and all fits are linear."""

FEWEST, MOST = 200, 500
"""Rows of each fit at least and at most: sixteen larger ones would take many times the fit."""

MOST_CELLS = 6000
"""Cells of each fit at most, where flexible ones are among them: 240 rows of 25 variables."""


@dataclass(frozen=True, eq=False)
class Probe:
    """A fit under another specification, and what is other about it."""

    change: str
    words: str
    planned: PlannedFit


def check_and_probe(
    batch: FitBatch, first: Posterior, done: dict[int, Posterior], keep: Callable[[], None]
) -> Sensitivity:
    """Check the fit; probe it only if it passes, for else a mixture follows in any case."""
    found = _unprobed(first)
    if not found.sure or batch.deadline.passed():
        return found
    batch.report("checking the fit", 0, None)
    found = dataclasses.replace(found, check=check_fit(first, batch.groups))
    if found.failed_check is not None:
        return found
    probes = plan_probes(batch, first)
    return run_probes(batch, first, found, [one for one in probes if one.change != "resample"],
                      done, keep)  # fmt: skip


def probe_all(batch: FitBatch, first: Posterior) -> Sensitivity:
    """Check the fit and run every probe, whatever the check says."""
    found = _unprobed(first)
    if not found.sure:
        return found
    found = dataclasses.replace(found, check=check_fit(first, batch.groups))
    return run_probes(batch, first, found, plan_probes(batch, first), {}, lambda: None)


def plan_probes(batch: FitBatch, first: Posterior) -> list[Probe]:
    """Other margins; the simplest mechanism, if another was chosen; other noise; a resample.

    Networks with Gaussian noise can read batches, or rows that depend on each other, as curved
    effects that leave Gaussian noise. Flexible mechanisms find other ones there.
    """
    mechanism = first.mechanism
    assert mechanism is not None
    n, seed = batch.problem.data.n_rows, batch.seed
    rng = generator(seed, Stream.PROBE_SEEDS)
    some = np.arange(n) if n <= PROBE_ROWS else np.sort(rng.choice(n, PROBE_ROWS, replace=False))
    few = some[:: -(-len(some) // FLEXIBLE_ROWS)]
    drawn = batch.resample(min(n, PROBE_ROWS), FITS)
    asked = [("margins", "rank-Gaussian margins", Specification(RANK, mechanism), some)]
    if mechanism not in (MECHANISMS[0], DISCRETE, MIXED):
        simple = MECHANISMS[0]
        asked.append(("mechanism", f"{simple} mechanisms", Specification(RAW, simple), some))
    if mechanism == MECHANISMS[2] and mixture_mechanism(batch, first) == "auto":
        flexible = MECHANISMS[1]
        asked.append(("noise", f"{flexible} mechanisms", Specification(RAW, flexible), few))
    asked.append(("resample", "resampled rows", Specification(RAW, mechanism), drawn))
    return [
        Probe(change, words, PlannedFit(spec, rows, child_seed(seed, Stream.PROBE_SEEDS, k)))
        for k, (change, words, spec, rows) in enumerate(asked)
    ]


def run_probes(
    batch: FitBatch,
    first: Posterior,
    found: Sensitivity,
    asked: list[Probe],
    done: dict[int, Posterior],
    keep: Callable[[], None],
) -> Sensitivity:
    """Run probes as far as the time goes, and say which of them may contradict the fit."""
    cheaper = dataclasses.replace(batch, method=_cheaper(batch.method))
    fits = cheaper.fit([one.planned for one in asked], done, keep, "probing other models")
    numbers = sorted(fits)
    return dataclasses.replace(
        found,
        changes=tuple(asked[k].change for k in numbers),
        probes=tuple(asked[k].words for k in numbers),
        probed=np.stack([fits[k].graphs.edge_probabilities() for k in numbers])
        if numbers
        else found.probed,
        credible=tuple(_credible(batch, first, found.check, asked[k], fits[k]) for k in numbers),
    )


def _unprobed(first: Posterior) -> Sensitivity:
    edges = first.graphs.edge_probabilities()
    return Sensitivity(first.names, edges, (), (), np.zeros((0, *edges.shape)))


def _credible(
    batch: FitBatch, first: Posterior, check: FitCheck | None, probe: Probe, fit: Posterior
) -> bool:
    """Whether a probe may contradict the fit.

    Both are compared on the rows of the probe by the log evidence that their causes gain over no
    causes at all: what a change of margins does to single columns drops out.
    """
    kinds = probe.planned.specification.mechanism in (DISCRETE, MIXED)
    if kinds or check is None or not check.passed or probe.change in ("noise", "resample"):
        return True
    planned, seed = probe.planned, batch.seed
    same_rows = dataclasses.replace(planned, specification=Specification(RAW, MECHANISMS[1]))
    own = explained(same_rows.problem(batch.problem), _graph(first), seed)
    other = explained(planned.problem(batch.problem), _graph(fit), seed)
    return bool(own - other < DECISIVE)


def explained(problem: Problem, graph: UInt8[np.ndarray, "m m"], seed: int) -> float:
    """Σ_j f_j(S_j) − f_j(∅): log evidence that the causes of a graph gain, flexible mechanisms."""
    scores, nodes = MechanismBuilder(problem, seed).flexible(), np.arange(len(graph))
    with_causes = scores.family_scores(nodes, graph.T.astype(bool))
    return float((with_causes - scores.family_scores(nodes, np.zeros(graph.shape, bool))).sum())


def _graph(posterior: Posterior) -> UInt8[np.ndarray, "m m"]:
    return posterior.consensus().graph.to_numpy().astype(np.uint8)


def _cheaper(method: Method) -> Method:
    """The method with half the hidden units, a quarter of the time: another model, but no worse."""
    units = method.values().get("units")
    return method if units is None else method.with_values({"units": max(1, units // 2)})


def contradicting(found: Sensitivity, batch: FitBatch, first: Posterior) -> list[Probe]:
    """The probes that contradict sure arrows, in the order in which they were run."""
    asked = [one for one in plan_probes(batch, first) if one.change in found.changes]
    flips = np.flatnonzero(found.contradicted.any(axis=(1, 2)))
    return [asked[k] for k in flips]


def mixture_mechanism(batch: FitBatch, first: Posterior) -> str:
    """What the resampled fits take: the first fit's own where kinds of columns ask for it."""
    if first.mechanism in (DISCRETE, MIXED):
        return str(first.mechanism)
    return "auto" if batch.problem.data.m <= MOST_VARIABLES else MECHANISMS[0]


def rows_of_a_bag(check: FitCheck, n: int, m: int) -> int:
    """How many rows each fit of the mixture sees where a fit of all is not to be trusted.

    Log evidence is proportional to rows, that of a misfit as well as that of an effect. So evidence
    must shrink until what the misfit says is no longer sure: to 50/δ rows where the residuals of
    two variables depend on each other by δ, within FEWEST and MOST. Where they do not and yet most
    arrows flip, it is half of the rows, within the same bounds. Rows that are like their neighbours
    count for less, and the more variables there are, the fewer rows flexible fits can afford.

    Examples
    --------
    >>> rows_of_a_bag(FitCheck(1e-6, ("a", "b"), 0.2, 1.0, 0.0), 1000, 10)
    250
    """
    most = MOST if m > MOST_VARIABLES else min(MOST, max(FEWEST, MOST_CELLS // m))
    rows = n / 2 if check.passed else float(MOST)
    if not check.explained:
        rows = MISFIT_ROWS / max(check.excess, 1e-9)
    return int(min(n, np.clip(round(min(rows, check.effective_rows(n))), FEWEST, most)))
