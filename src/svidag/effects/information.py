"""What outcomes of an experiment tell about groups of draws: graphs, or values of an effect.

With q(g | Y) ∝ p(g) p̂(Y | g)^β, or any other, the mean of log q(g | Y)/p(g) over outcomes Y of
draws whose group is g never exceeds the information (Barber & Agakov 2003), and reaches it for the
true density and β = 1. Where all parameters are averaged over in closed form, p̂ is exact for
the drawn graphs, and the mean over g given Y is taken too. Where parameters are drawn, p̂ has noise,
which β < 1 makes up for: the estimate is then a lower bound.

About an effect τ(A, θ), groups are: no path, and `GROUPS` of equal size by the value of τ;
parameters that do not enter the effect are averaged over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from scipy.special import logsumexp

from svidag.effects.densities import Families, log_densities
from svidag.effects.estimation import simulate
from svidag.effects.query import EffectQuery
from svidag.graph import distinct
from svidag.mechanisms.discrete_parameters import DiscreteParameters
from svidag.mechanisms.equations import ParameterDistribution
from svidag.mechanisms.linear_parameters import LinearEquations, LinearParameters
from svidag.posterior import Posterior
from svidag.posterior.mixture import MixtureParameters
from svidag.run.streams import Stream, child_seed, generator

GRAPHS = 400
"""Drawn graphs behind the inner sum about the graph."""
DRAWS = 1000
"""Drawn graphs with parameters behind the inner sum about an effect."""
GROUPS = 8
"""Groups of equal size by which the values of an effect are distinguished."""
MIXED = 0.05
"""Share of the prior in q, where parameters are drawn."""
POWERS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1)
"""Choices of β."""

FitDraws = tuple[ParameterDistribution, UInt8[np.ndarray, "_ m m"]]
"""The parameters of a fit, and graphs drawn from it."""


def draw_parts(posterior: Posterior, size: int, seed: int) -> list[FitDraws]:
    """Graphs of the fits that parameters come from: of one, or of those of a mixture."""
    drawn = posterior.mechanisms
    assert drawn is not None
    if not isinstance(drawn, MixtureParameters):
        return [(drawn, posterior.sample(size, seed))]
    rng = generator(seed, Stream.EXPERIMENT_CHOICES, 0)
    chosen = rng.choice(len(drawn.weights), size=size, p=drawn.weights)
    found = []
    for c, (parameters, graphs) in enumerate(zip(drawn.components, drawn.graphs, strict=True)):
        count, own = int((chosen == c).sum()), child_seed(seed, Stream.EXPERIMENT_CHOICES, c + 1)
        if count:
            found.append((parameters, graphs.sample(count, own)))
    return found


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Units that go through every experiment: drawn graphs, parameters and noise.

    Attributes
    ----------
    parts
        Equations and noise, for each fit.
    truth
        The group that each unit belongs to.
    """

    parts: tuple[tuple[Any, Float[np.ndarray, "_ R m"]], ...]
    truth: Int[np.ndarray, " B"]

    def simulate(
        self, target: int | None, level: Float[np.ndarray, " R"] | None
    ) -> Float[np.ndarray, "B R m"]:
        """What the units would show with one variable set."""
        found = []
        for equations, noise in self.parts:
            values = np.full(noise.shape, np.nan)
            free = np.ones((len(noise), noise.shape[2]), dtype=bool)
            if target is not None:
                values[:, :, target] = level
                free[:, target] = False
            found.append(equations.propagate(values, noise, free))
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class Design:
    """Draws whose weights outcomes change, and the groups that matter.

    Attributes
    ----------
    group
        The group of each draw.
    families
        For each fit, the densities of its families, and its drawn graphs.
    """

    group: Int[np.ndarray, " T"]
    families: tuple[tuple[Families, UInt8[np.ndarray, "_ m m"]], ...]

    @property
    def share(self) -> Float[np.ndarray, " G"]:
        """p(g)."""
        return np.bincount(self.group) / len(self.group)

    @property
    def uncertainty(self) -> float:
        """Bits that are unknown before the experiment."""
        return float(-(self.share * np.log2(self.share)).sum())

    @property
    def limit(self) -> float:
        """Bits that could be seen at most."""
        return float(np.log2(len(self.group)))

    @property
    def exact(self) -> bool:
        """Whether all parameters have a closed form to average over."""
        closed = LinearParameters | DiscreteParameters
        return all(isinstance(f.distribution, closed) for f, _ in self.families)

    def outcomes(self, experiments: int, rows: int, seed: int) -> Outcomes:
        """Units to go through the experiments."""
        raise NotImplementedError

    def terms(
        self, outcomes: Float[np.ndarray, "B R m"], target: int | None
    ) -> Float[np.ndarray, "G B"]:
        """log p̂(Y | g) for each group and outcome."""
        weights = self.log_weights(outcomes, target)
        counts = np.bincount(self.group)
        return np.stack(
            [
                logsumexp(weights[:, self.group == g], axis=1) - np.log(count)
                for g, count in enumerate(counts)
            ]
        )

    def bits(
        self, terms: Sequence[Float[np.ndarray, "G B"]], truth: Int[np.ndarray, " B"]
    ) -> list[Float[np.ndarray, " B"]]:
        """The information in each outcome of each experiment, in bits."""
        prior = np.log(self.share)[:, None]
        if self.exact:
            after = [_posterior(prior, term) for term in terms]
            return [(np.exp(a) * (a - prior)).sum(axis=0) / np.log(2) for a in after]
        return [
            max((_at_truth(prior, p * term, truth) for p in POWERS), key=lambda bits: bits.mean())
            for term in terms
        ]

    def log_weights(
        self, outcomes: Float[np.ndarray, "B R m"], target: int | None
    ) -> Float[np.ndarray, "B T"]:
        """log p(Y | draw) up to what all draws share."""
        parts = [self.averaged(f, graphs, outcomes, target) for f, graphs in self.families]
        return np.concatenate(parts, axis=1)

    def averaged(
        self,
        families: Families,
        graphs: UInt8[np.ndarray, "t m m"],
        outcomes: Float[np.ndarray, "B R m"],
        target: int | None,
        skip: Bool[np.ndarray, "t m"] | None = None,
    ) -> Float[np.ndarray, "B t"]:
        """Σ_j log p(Y_j | Y_P, D) over the nodes that are neither set nor skipped."""
        total = np.zeros((len(outcomes), len(graphs)))
        for j in range(graphs.shape[1]):
            if j == target:
                continue
            sets, which = np.unique(graphs[:, :, j], axis=0, return_inverse=True)
            which, wanted = which.reshape(-1), np.ones(len(graphs), dtype=bool)
            if skip is not None:
                wanted = ~skip[:, j]
            elif len(sets) == 1 and len(self.families) == 1:
                continue  # the same factor for every graph
            for k in np.unique(which[wanted]):
                term = families.log_predictive(j, np.flatnonzero(sets[k]), outcomes)
                total[:, wanted & (which == k)] += term[:, None]
        return total


def _posterior(prior: np.ndarray, terms: Float[np.ndarray, "G B"]) -> Float[np.ndarray, "G B"]:
    return prior + terms - logsumexp(prior + terms, axis=0)


def _at_truth(
    prior: np.ndarray, terms: Float[np.ndarray, "G B"], truth: Int[np.ndarray, " B"]
) -> Float[np.ndarray, " B"]:
    """log q(g | Y)/p(g), with some of p(g) mixed into q, so that no outcome costs very much."""
    after = np.logaddexp(np.log(1 - MIXED) + _posterior(prior, terms), np.log(MIXED) + prior)
    return (after - prior)[truth, np.arange(len(truth))] / np.log(2)


@dataclass(frozen=True, eq=False)
class GraphDesign(Design):
    """Groups are graphs."""

    @classmethod
    def of(cls, posterior: Posterior, seed: int) -> GraphDesign:
        """Draw the graphs."""
        parts = draw_parts(posterior, GRAPHS, seed)
        everything = np.concatenate([graphs for _, graphs in parts])
        families = tuple((Families(parameters, seed), graphs) for parameters, graphs in parts)
        return cls(distinct(everything)[1], families)

    def outcomes(self, experiments: int, rows: int, seed: int) -> Outcomes:
        """Units of graphs among those drawn, each with parameters of its own."""
        rng, own = (
            generator(seed, Stream.EXPERIMENT_NOISE),
            child_seed(seed, Stream.EXPERIMENT_NOISE),
        )
        chosen = np.sort(rng.choice(len(self.group), experiments))
        parts, start = [], 0
        for families, graphs in self.families:
            inside = chosen[(chosen >= start) & (chosen < start + len(graphs))] - start
            start += len(graphs)
            if len(inside):
                noise = rng.standard_normal((len(inside), rows, graphs.shape[1]))
                parts.append((families.distribution.draw(graphs[inside], own), noise))
        return Outcomes(tuple(parts), self.group[chosen])


@dataclass(frozen=True, eq=False)
class EffectDesign(Design):
    """Groups are values of an effect; its own parameters are drawn, others averaged over."""

    posterior: Posterior
    query: EffectQuery
    equations: tuple[Any, ...]
    deciding: tuple[Bool[np.ndarray, "_ m"], ...]
    edges: Float[np.ndarray, " _"]
    labels: Int[np.ndarray, " G"]

    @classmethod
    def of(cls, posterior: Posterior, query: EffectQuery, seed: int) -> EffectDesign:
        """Draw graphs and parameters."""
        parts = draw_parts(posterior, DRAWS, seed)
        equations = tuple(parameters.draw(graphs, seed) for parameters, graphs in parts)
        found = [effects(drawn, query, seed) for drawn in equations]
        values = np.concatenate([each for each, _ in found])
        moved = values[values != 0]
        edges = np.quantile(moved, np.arange(1, GROUPS) / GROUPS) if len(moved) else np.zeros(0)
        labels, group = np.unique(_raw_group(values, edges), return_inverse=True)
        return cls(
            group.reshape(-1),
            tuple((Families(parameters, seed), graphs) for parameters, graphs in parts),
            posterior,
            query,
            equations,
            tuple(nodes for _, nodes in found),
            edges,
            labels,
        )

    @property
    def limit(self) -> float:
        """What the groups tell apart."""
        return self.uncertainty

    def outcomes(self, experiments: int, rows: int, seed: int) -> Outcomes:
        """Units with graphs and parameters of their own."""
        own = child_seed(seed, Stream.EXPERIMENT_NOISE)
        rng, m = generator(seed, Stream.EXPERIMENT_NOISE, 1), len(self.posterior.names)
        drawn = [p.draw(graphs, own) for p, graphs in draw_parts(self.posterior, experiments, own)]
        values = np.concatenate([effects(each, self.query, own)[0] for each in drawn])
        parts = tuple((each, rng.standard_normal((len(each.graphs), rows, m))) for each in drawn)
        # A group that no draw has shown is taken for the nearest one.
        apart = np.abs(_raw_group(values, self.edges)[:, None] - self.labels)
        return Outcomes(parts, apart.argmin(axis=1))

    def log_weights(
        self, outcomes: Float[np.ndarray, "B R m"], target: int | None
    ) -> Float[np.ndarray, "B T"]:
        """As for graphs, with the drawn parameters where they enter the effect."""
        found = []
        flat = outcomes.reshape(-1, outcomes.shape[2])
        for (families, graphs), equations, deciding in zip(
            self.families, self.equations, self.deciding, strict=True
        ):
            total = self.averaged(families, graphs, outcomes, target, deciding)
            for j in range(graphs.shape[1]):
                which = np.flatnonzero(deciding[:, j])
                if j != target and len(which):
                    own = log_densities(equations, np.full(len(which), j), flat, which)
                    total[:, which] += own.reshape(-1, *outcomes.shape[:2]).sum(axis=2).T
            found.append(total)
        return np.concatenate(found, axis=1)


def effects(
    equations: Any, query: EffectQuery, seed: int
) -> tuple[Float[np.ndarray, " T"], Bool[np.ndarray, "T m"]]:
    """τ of each draw, 0 without a path, and the nodes whose parameters enter it."""
    nodes = query.relevant_nodes(equations.graphs)
    if isinstance(equations, LinearEquations):
        slopes = equations.responses(query.cause, nodes.moved)
        values, deciding = query.change * slopes[:, query.effect], nodes.moved
    else:
        share = max(float(nodes.reached.mean()), 1e-9)
        values, _ = simulate(equations, query, nodes, seed, share)
        # Two levels can balance by chance: that is no missing path.
        values = np.where(values == 0, np.finfo(float).tiny, values)
        deciding = nodes.relevant
    return np.where(nodes.reached, values, 0.0), deciding & nodes.reached[:, None]


def _raw_group(
    values: Float[np.ndarray, " T"], edges: Float[np.ndarray, " _"]
) -> Int[np.ndarray, " T"]:
    """0 for no effect, and from 1 on the place of its value between the edges.

    Examples
    --------
    >>> _raw_group(np.array([0.0, -1.0, 2.0]), np.array([1.0])).tolist()
    [0, 1, 2]
    """
    return np.where(values == 0, 0, 1 + np.searchsorted(edges, values))
