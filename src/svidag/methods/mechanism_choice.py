"""The mechanism of a fit: by its name, or chosen by evidence.

All mechanisms give normalised densities of the same rows, so their logarithms compare. For each
node the parents are chosen greedily, by that mechanism's own evidence and the prior's odds, without
regard to cycles: the sum over nodes is a pseudo-evidence, log Π_j p(x_j | chosen neighbours of j).

Flexible mechanisms contain the linear ones and never have less evidence; they are chosen if they
gain more than `LEAST_GAIN` in all, and networks with Gaussian noise, which have more hidden units,
if they gain more than that beyond the flexible ones. Flexible fits take long, so that parents are
those that BGe or a small network chooses, whichever gives more to the mechanism in question.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from svidag.data import Dataset
from svidag.mechanisms.discrete import DiscreteTables
from svidag.mechanisms.environments import EnvironmentScores
from svidag.mechanisms.flexible import FlexibleMechanism
from svidag.mechanisms.flexible_screen import ScreenedFlexible
from svidag.mechanisms.integrated import IntegratedScores, parameter_distribution
from svidag.mechanisms.local import FamilyScores
from svidag.mechanisms.mixed import MixedMechanism
from svidag.mechanisms.mixed_screen import ScreenedMixed
from svidag.mechanisms.order_averaged import OrderAveraged
from svidag.mechanisms.wide import WideNetwork
from svidag.methods.base import MethodResult
from svidag.methods.mechanism_building import MechanismBuilder
from svidag.posterior import GraphDistribution
from svidag.posterior.diagnostics import Details, Reason
from svidag.prior import EdgePrior
from svidag.problem import Problem
from svidag.run.status import Status
from svidag.scores import forward_selection

MOST_PARENTS = 8
"""Parents chosen for a node at most."""

SKETCH_FROM = 300
"""Rows from which it saves time to score parent sets by a smaller network first."""

FEW_UNITS = 12
"""Hidden units, at most, of the network that chooses parents for flexible mechanisms."""

CHOICE_ROWS = 2000
"""Rows by which parents are chosen for a comparison of linear mechanisms and networks; the evidence
is that of all rows. Trying every parent of 60 variables takes minutes with 30 000 rows."""

LEAST_GAIN = 5.0
"""Log pseudo-evidence that flexible mechanisms must gain to be chosen."""


@dataclass(frozen=True)
class Choice:
    """The mechanism, and by how much log pseudo-evidence it was preferred to which other."""

    mechanism: str
    margin: float
    runner_up: str | None = None


@dataclass(frozen=True, eq=False)
class IntegratedMechanism:
    """A mechanism with its parameters integrated out.

    Attributes
    ----------
    name
        ``"linear"``, ``"nonlinear"``, ``"flexible"``, ``"discrete"`` or ``"mixed"``.
    scores
        The evidence of every node given any parents.
    sketch
        A smaller network that scores parent sets first, where that saves time.
    margin
        By how much log evidence it was preferred, where it was chosen.
    weight
        How many times every row counts.
    runner_up
        The mechanism that it was preferred to.
    """

    name: str
    scores: IntegratedScores
    sketch: WideNetwork | EnvironmentScores | None
    margin: float | None = None
    weight: float = 1.0
    runner_up: str | None = None

    @property
    def screened(self) -> bool:
        """Whether families are fitted without parents that explain nothing."""
        scores = self.scores.base if isinstance(self.scores, EnvironmentScores) else self.scores
        return isinstance(scores, ScreenedFlexible | ScreenedMixed)

    def result(
        self,
        problem: Problem,
        graphs: GraphDistribution,
        status: Status,
        reasons: tuple[Reason, ...],
        details: Details | None = None,
        *,
        log_evidence: float | None = None,
        changes: Mapping[str, tuple[float, ...]] | None = None,
    ) -> MethodResult:
        """The result of a fit with this mechanism, whose parameters can be drawn again."""
        return MethodResult(
            graphs,
            parameter_distribution(self.scores, problem.scaling),
            self.name,
            status,
            reasons,
            details,
            self.margin,
            log_evidence,
            changes,
            self.runner_up,
        )


def integrate(
    problem: Problem,
    mechanism: str,
    *,
    units: int,
    sketch_units: int,
    seed: int,
    notes: dict[str, Any],
    coarsen: float | None = None,
    with_flexible: bool = False,
    screened: bool = True,
) -> IntegratedMechanism:
    """Build the mechanism of this name, or for ``"auto"`` the one that the evidence prefers.

    The choice is between linear mechanisms and networks and, `with_flexible`, flexible ones;
    `notes` keeps it for a fit that is resumed. Where `coarsen` is α, every row counts α/(α + N)
    times. Flexible mechanisms are `screened` for parents that explain nothing, which saves most of
    their fits.
    """
    weight = 1.0 if coarsen is None else coarsen / (coarsen + len(problem.data.values))
    build = MechanismBuilder(problem, seed, weight)
    margin, runner_up = None, None
    if mechanism == "auto":
        if "choice" not in notes:
            if with_flexible:
                choice = choose_of_all(build, units, sketch_units)
            else:
                choice = choose_of_two(build, sketch_units)
            notes["choice"] = dataclasses.asdict(choice)
        choice = Choice(**notes["choice"])
        mechanism, margin, runner_up = choice.mechanism, choice.margin, choice.runner_up
    scores, sketch = _build(build, mechanism, units, sketch_units, screened)
    return IntegratedMechanism(mechanism, scores, sketch, margin, weight, runner_up)


def _build(
    build: MechanismBuilder, mechanism: str, units: int, sketch_units: int, screened: bool
) -> tuple[IntegratedScores, WideNetwork | EnvironmentScores | None]:
    """The mechanism, and its sketch where that saves time."""
    if mechanism == "linear":
        return build.linear(), None
    if mechanism == "discrete":
        return build.of_kinds(lambda data: DiscreteTables.of(data, build.weight)), None
    if mechanism == "mixed":

        def regressions(data: Dataset) -> OrderAveraged | ScreenedMixed:
            averaged = OrderAveraged(
                MixedMechanism(data, build.weight, prior_scale=build.prior_scale)
            )
            return ScreenedMixed(averaged) if screened else averaged

        return build.of_kinds(regressions), None
    if mechanism == "flexible":
        flexible = build.flexible(units)
        return _screened(flexible) if screened else flexible, None
    expensive = build.problem.data.n_rows >= SKETCH_FROM and sketch_units < units
    return build.network(units), build.network(sketch_units) if expensive else None


def _screened(
    flexible: FlexibleMechanism | EnvironmentScores,
) -> ScreenedFlexible | EnvironmentScores:
    if isinstance(flexible, FlexibleMechanism):
        return ScreenedFlexible.of(flexible)
    assert isinstance(flexible.base, FlexibleMechanism)
    return dataclasses.replace(flexible, base=ScreenedFlexible.of(flexible.base))


def choose_of_two(build: MechanismBuilder, units: int) -> Choice:
    """Choose between networks and their own linear part, so that only the hidden units differ.

    BGe's evidence does not compare: its prior on scales is another one, and that difference, some
    log evidence for each node, would decide.
    """
    prior = build.problem.prior
    few = build.few_rows(CHOICE_ROWS)
    evidences = {}
    for name, size in (("linear", 0), ("nonlinear", units)):
        scores = build.network(size)
        chooser = scores if few is build else few.network(size)
        evidences[name] = pseudo_evidence(scores, prior, chooser)
    return _best(evidences)


def choose_of_all(build: MechanismBuilder, units: int, sketch_units: int) -> Choice:
    """Choose flexible mechanisms, or else networks with Gaussian noise, if they gain enough.

    Each is compared with its own linear part, since priors on scales differ between the two.
    """
    prior, flexible = build.problem.prior, build.flexible(units)
    odds = np.where(prior.free, prior.logit, 0.0)
    everyone = np.arange(len(odds))
    selections = [
        forward_selection(scores, prior, most=MOST_PARENTS)
        for scores in (flexible.linear, build.network(min(sketch_units, FEW_UNITS)))
    ]

    def best(scores: FamilyScores) -> float:
        found = [
            scores.family_scores(everyone, chosen.T) + (odds * chosen).sum(axis=0)
            for chosen in selections
        ]
        return float(np.maximum(*found).sum())

    gains = {
        "linear": 0.0,
        "flexible": best(flexible) - best(flexible.linear) - LEAST_GAIN,
        "nonlinear": best(build.network(units)) - best(build.network(0)) - 2 * LEAST_GAIN,
    }
    return _best(gains)


def pseudo_evidence(
    scores: FamilyScores, prior: EdgePrior, chooser: FamilyScores | None = None
) -> float:
    """Σ_j log p(x_j | S_j) + log p(S_j) for S_j chosen greedily, by other scores if there are."""
    selected = forward_selection(chooser or scores, prior, most=MOST_PARENTS)
    odds = np.where(prior.free & selected, prior.logit, 0.0)
    families = scores.family_scores(np.arange(len(selected)), selected.T)
    return float(families.sum() + odds.sum())


def _best(evidence: dict[str, float]) -> Choice:
    """The first of the largest, and by how much it is larger than which other."""
    best, runner_up, *_ = sorted(evidence, key=lambda name: -evidence[name])
    return Choice(best, evidence[best] - evidence[runner_up], runner_up)
