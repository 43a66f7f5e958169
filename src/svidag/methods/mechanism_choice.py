"""Mechanisms with their parameters integrated out, and the choice between them by evidence.

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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from svidag.data import Dataset
from svidag.mechanisms.collapsed import IntegratedScores
from svidag.mechanisms.discrete import DiscreteTables
from svidag.mechanisms.environments import SIZES, EnvironmentScores
from svidag.mechanisms.flexible import LOCATIONS, FlexibleMechanism
from svidag.mechanisms.flexible_screen import ScreenedFlexible
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import FamilyScores
from svidag.mechanisms.mixed import MixedMechanism
from svidag.mechanisms.mixed_screen import ScreenedMixed
from svidag.mechanisms.order_averaged import OrderAveraged
from svidag.mechanisms.wide import WideNetwork
from svidag.prior import EdgePrior
from svidag.problem import Problem
from svidag.scores import forward_selection

MOST_PARENTS = 8
"""Parents chosen for a node at most."""

SKETCH_FROM = 300
"""Rows from which it saves time to score parent sets by a smaller network first."""

FLEXIBLE_UNITS = 64
"""Hidden units of flexible mechanisms at most."""

FEW_UNITS = 12
"""Hidden units, at most, of the network that chooses parents for flexible mechanisms."""

LEAST_GAIN = 5.0
"""Log pseudo-evidence that flexible mechanisms must gain to be chosen."""


@dataclass(frozen=True)
class Choice:
    """The mechanism, and by how much log pseudo-evidence it was preferred to which other."""

    mechanism: str
    margin: float
    runner_up: str | None = None


@dataclass(frozen=True, eq=False)
class Integrated:
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


def integrate(
    problem: Problem,
    mechanism: str,
    *,
    units: int,
    sketch_units: int,
    seed: int,
    notes: dict[str, Any],
    coarsen: float | None = None,
    other: str = "nonlinear",
    screened: bool = True,
) -> Integrated:
    """Build the mechanism of this name, or for ``"auto"`` the one that the evidence prefers.

    The choice is between linear ones and the `other`; `notes` keeps it for a fit that is resumed.
    Where `coarsen` is α, every row counts α/(α + N) times. Flexible mechanisms are `screened` for
    parents that explain nothing, which saves most of their fits.
    """
    weight = 1.0 if coarsen is None else coarsen / (coarsen + len(problem.data.values))
    build = _Builder(problem, units, sketch_units, seed, weight)
    choice = None
    if mechanism == "auto":
        if "choice" not in notes:
            compare = build.compare_flexible if other == "flexible" else build.compare_networks
            notes["choice"] = dataclasses.asdict(compare())
        choice = Choice(**notes["choice"])
        mechanism = choice.mechanism
    margin = None if choice is None else choice.margin
    runner_up = None if choice is None else choice.runner_up
    if mechanism == "linear":
        return Integrated(mechanism, build.linear(), None, margin, weight, runner_up)
    if mechanism == "discrete":
        scores = build.of_kinds(lambda data: DiscreteTables.of(data, weight))
        return Integrated(mechanism, scores, None, None, weight)
    if mechanism == "mixed":

        def regressions(data: Dataset) -> OrderAveraged | ScreenedMixed:
            averaged = OrderAveraged(MixedMechanism(data, weight))
            return ScreenedMixed(averaged) if screened else averaged

        return Integrated(mechanism, build.of_kinds(regressions), None, None, weight)
    if mechanism == "flexible":
        flexible = build.flexible()
        scores = _screened(flexible) if screened else flexible
        return Integrated(mechanism, scores, None, margin, weight, runner_up)
    expensive = len(problem.data.values) >= SKETCH_FROM and sketch_units < units
    sketch = build.network(sketch_units) if expensive else None
    return Integrated(mechanism, build.network(units), sketch, margin, weight, runner_up)


def _screened(
    flexible: FlexibleMechanism | EnvironmentScores,
) -> ScreenedFlexible | EnvironmentScores:
    if isinstance(flexible, FlexibleMechanism):
        return ScreenedFlexible.of(flexible)
    assert isinstance(flexible.base, FlexibleMechanism)
    return dataclasses.replace(flexible, base=ScreenedFlexible.of(flexible.base))


def flexible_mechanism(problem: Problem, seed: int) -> FlexibleMechanism | EnvironmentScores:
    """Flexible mechanisms of a problem, to compare graphs of different fits by."""
    return _Builder(problem, FLEXIBLE_UNITS, 0, seed, 1.0).flexible()


def choose(candidates: dict[str, FamilyScores], prior: EdgePrior) -> Choice:
    """Prefer the mechanism with the largest pseudo-evidence; the first wins ties."""
    evidence = {name: pseudo_evidence(scores, prior) for name, scores in candidates.items()}
    return _best(evidence)


def _best(evidence: dict[str, float]) -> Choice:
    """The first of the largest, and by how much it is larger than which other."""
    best, runner_up, *_ = sorted(evidence, key=lambda name: -evidence[name])
    return Choice(best, evidence[best] - evidence[runner_up], runner_up)


def pseudo_evidence(scores: FamilyScores, prior: EdgePrior) -> float:
    """Σ_j log p(x_j | S_j) + log p(S_j) for greedily chosen S_j."""
    selected = forward_selection(scores, prior, most=MOST_PARENTS)
    odds = np.where(prior.free & selected, prior.logit, 0.0)
    families = scores.family_scores(np.arange(len(selected)), selected.T)
    return float(families.sum() + odds.sum())


@dataclass(frozen=True, eq=False)
class _Builder:
    """Mechanisms of one problem."""

    problem: Problem
    units: int
    sketch_units: int
    seed: int
    weight: float

    def linear(self) -> LinearGaussian | EnvironmentScores:
        _, values, intervened = self._columns()
        base = LinearGaussian.from_values(values, intervened, weight=self.weight)
        environments = self.problem.environments
        if environments is None:
            return base
        m, labels = self.problem.data.m, environments.labels
        parts = (
            LinearGaussian.from_values(
                values[labels == e, :m], intervened[labels == e, :m], weight=self.weight
            )
            for e in range(len(environments.levels))
        )
        return self._changing(base, tuple(parts))

    def network(self, units: int) -> WideNetwork | EnvironmentScores:
        names, values, intervened = self._columns()
        return self._changing(
            WideNetwork.from_values(
                values, names, intervened, units=units, seed=self.seed, weight=self.weight
            )
        )

    def _columns(self) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
        """Names, values and mask of the variables, and of contrasts between environments."""
        data, environments = self.problem.data, self.problem.environments
        if environments is None:
            return data.names, data.values, data.intervened
        contrasts = environments.contrasts()[1]
        names = tuple(f"contrast {k}\0" for k in range(contrasts.shape[1]))
        free = np.zeros(contrasts.shape, dtype=bool)
        return (
            (*data.names, *names),
            np.column_stack([data.values, contrasts]),
            np.column_stack([data.intervened, free]),
        )

    def _changing(self, base: Any, parts: tuple[LinearGaussian, ...] = ()) -> Any:
        """The mechanism itself, or averaged over what environments may change."""
        environments = self.problem.environments
        if environments is None:
            return base
        shares = np.bincount(environments.labels) / len(environments.labels)
        _, values, intervened = self._columns()
        m, sizes = self.problem.data.m, []
        for size in SIZES:
            scaled = np.column_stack([values[:, :m], size * values[:, m:]])
            sizes.append(LinearGaussian.from_values(scaled, intervened, weight=self.weight))
        contrasts = environments.contrasts()[0]
        return EnvironmentScores(base, contrasts, shares, tuple(sizes), parts)

    def flexible(self) -> FlexibleMechanism | EnvironmentScores:
        names, values, intervened = self._columns()
        return self._changing(
            FlexibleMechanism.from_values(
                values,
                names,
                intervened,
                units=max(1, min(self.units, FLEXIBLE_UNITS)),
                seed=self.seed,
                weight=self.weight,
                locations=LOCATIONS if self.units else LOCATIONS[:1],
            )
        )

    def of_kinds(self, make: Callable[[Dataset], Any]) -> Any:
        """Mechanisms of a table with discrete columns; the environment is one more of them."""
        data, environments = self.problem.data, self.problem.environments
        if environments is None:
            return make(data)
        numbers = np.arange(float(len(environments.levels)))[:, None]
        shares = np.bincount(environments.labels) / len(environments.labels)
        return EnvironmentScores(make(environments.beside(data)), numbers, shares)

    def compare_networks(self) -> Choice:
        """Compare the network with its own linear part, so that only the hidden units differ.

        BGe's evidence does not compare: its prior on scales is another one, and that difference,
        some log evidence for each node, would decide.
        """
        candidates: dict[str, FamilyScores] = {
            "linear": self.network(0),
            "nonlinear": self.network(self.sketch_units),
        }
        return choose(candidates, self.problem.prior)

    def compare_flexible(self) -> Choice:
        """Whether flexible mechanisms, or else networks with Gaussian noise, gain enough.

        Each is compared with its own linear part, since priors on scales differ between the two.
        """
        prior, flexible = self.problem.prior, self.flexible()
        odds = np.where(prior.free, prior.logit, 0.0)
        everyone = np.arange(len(odds))
        selections = [
            forward_selection(scores, prior, most=MOST_PARENTS)
            for scores in (flexible.linear, self.network(min(self.sketch_units, FEW_UNITS)))
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
            "nonlinear": best(self.network(self.units)) - best(self.network(0)) - 2 * LEAST_GAIN,
        }
        return _best(gains)
