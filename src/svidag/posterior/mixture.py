"""An average of fits: resamples, specifications, completed tables.

The posterior of a mixture is Σ_c w_c p_c(A), with θ | A from the fits themselves. A fit may have
seen the columns on another scale (rank-Gaussian margins): its graphs count, but its parameters say
nothing in the units of the table, so that parameters come from the other fits alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from scipy.special import logsumexp

from svidag.mechanisms.equations import Equations, ParameterDistribution
from svidag.mechanisms.linear_parameters import LinearEquations
from svidag.posterior.diagnostics import Details, diagnostic
from svidag.posterior.distributions import GraphDistribution
from svidag.run.streams import Stream, child_seed, generator


@dataclass(frozen=True, eq=False)
class MixtureGraphs(GraphDistribution):
    """A fit at random by its weight, then a graph from it.

    Attributes
    ----------
    components
        The distribution of each fit.
    weights
        Their weights, which sum to 1.

    Examples
    --------
    >>> from svidag.posterior import DrawnGraphs
    >>> empty, full = np.zeros((1, 2, 2), np.uint8), np.array([[[0, 1], [0, 0]]], np.uint8)
    >>> fits = tuple(DrawnGraphs(graph, np.ones(1)) for graph in (empty, full))
    >>> mixture = MixtureGraphs(fits, np.array([0.75, 0.25]))
    >>> float(mixture.edge_probabilities()[0, 1])
    0.25
    >>> np.exp(mixture.log_probability(full)).round(2).tolist()
    [0.25]
    """

    components: tuple[GraphDistribution, ...]
    weights: Float[np.ndarray, " fits"]

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws; the seed decides the fit of each and its draws there."""
        chosen = generator(seed, Stream.MIXTURE_DRAWS).choice(len(self.weights), n, p=self.weights)
        m = len(self.components[0].edge_probabilities())
        drawn = np.zeros((n, m, m), dtype=np.uint8)
        for c, rows in _by_component(chosen):
            own = child_seed(seed, Stream.MIXTURE_DRAWS, c)
            drawn[rows] = self.components[c].sample(len(rows), own)
        return drawn

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """The weighted mean over fits."""
        return np.einsum("c,cij->ij", self.weights, self.edges())

    def edges(self) -> Float[np.ndarray, "fits m m"]:
        """P(i → j) of each fit."""
        return np.stack([component.edge_probabilities() for component in self.components])

    def spread(self) -> Float[np.ndarray, "m m"]:
        """The standard deviation of P(i → j) between fits."""
        away = self.edges() - self.edge_probabilities()
        return np.sqrt(np.einsum("c,cij->ij", self.weights, away**2))

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> Float[np.ndarray, " S"] | None:
        """log Σ_c w_c p_c(A); None unless every fit knows its own."""
        terms = _weighted_log_probabilities(self.components, self.weights, graphs)
        return None if terms is None else np.asarray(logsumexp(terms, axis=0))


@dataclass(frozen=True, eq=False)
class MixtureEquations(Equations):
    """Equations of which each graph's are those of one fit.

    Attributes
    ----------
    graphs
        The graphs A_s.
    rows
        For each part, which graphs it answers for.
    parts
        The equations of these graphs.
    """

    graphs: UInt8[np.ndarray, "S m m"]
    rows: tuple[Int[np.ndarray, " _"], ...]
    parts: tuple[Equations, ...]

    def log_likelihood(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "S N"]:
        """log p(row | A_s, θ_s)."""
        found = np.empty((len(self.graphs), len(rows)))
        for own, part in zip(self.rows, self.parts, strict=True):
            found[own] = part.log_likelihood(rows)
        return found

    def propagate(
        self,
        values: Float[np.ndarray, "S R m"],
        noise: Float[np.ndarray, "S R m"],
        nodes: Bool[np.ndarray, "S m"],
    ) -> Float[np.ndarray, "S R m"]:
        """Replace the chosen nodes by what the equations of their graph's fit say."""
        found = np.array(values, dtype=float)
        for own, part in zip(self.rows, self.parts, strict=True):
            found[own] = part.propagate(values[own], noise[own], nodes[own])
        return found


@dataclass(frozen=True, eq=False)
class MixtureParameters(ParameterDistribution):
    """Parameters from one of the fits, chosen for each graph.

    A fit is chosen in proportion to w_c p_c(A), as Bayes' rule says where every fit knows the
    probability of a graph, and in proportion to w_c where some know only draws.

    Attributes
    ----------
    components
        Parameters given a graph, in the units of the table, of the fits that have them.
    graphs
        The distribution over graphs of the same fits.
    weights
        Their weights, which sum to 1.
    """

    components: tuple[ParameterDistribution, ...]
    graphs: tuple[GraphDistribution, ...]
    weights: Float[np.ndarray, " fits"]

    def parameters(
        self, graph: UInt8[np.ndarray, "m m"], n: int, seed: int
    ) -> dict[str, np.ndarray]:
        """Draws by name, and as `fit` the fit of each; NaN where that fit has no such parameter."""
        chosen = self._choose(np.repeat(graph[None], n, axis=0), seed)
        found: dict[str, np.ndarray] = {"fit": chosen}
        for c, rows in _by_component(chosen):
            own = child_seed(seed, Stream.MIXTURE_PARAMETERS, c)
            for name, values in self.components[c].parameters(graph, len(rows), own).items():
                shape = (n, *values.shape[1:])
                if name not in found:
                    found[name] = np.full(shape, np.nan)
                found[name][rows] = values
        return found

    def draw(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> Equations:
        """Choose a fit for each graph, and draw θ once from it."""
        parts = list(_by_component(self._choose(graphs, seed)))
        drawn = [
            self.components[c].draw(
                graphs[rows],
                child_seed(seed, Stream.MIXTURE_PARAMETERS, c),
                None if nodes is None else nodes[rows],
            )
            for c, rows in parts
        ]
        found = MixtureEquations(graphs, tuple(rows for _, rows in parts), tuple(drawn))
        if all(isinstance(part, LinearEquations) for part in drawn):
            return _joined(found)
        return found

    def _choose(self, graphs: UInt8[np.ndarray, "S m m"], seed: int) -> Int[np.ndarray, " S"]:
        terms = _weighted_log_probabilities(self.graphs, self.weights, graphs)
        by_weight = np.repeat(np.log(self.weights)[:, None], len(graphs), axis=1)
        if terms is None:
            terms = by_weight
        else:  # a graph that only fits on other scales gave
            terms = np.where(np.isneginf(terms).all(axis=0), by_weight, terms)
        share = np.exp(terms - logsumexp(terms, axis=0)).cumsum(axis=0)
        point = generator(seed, Stream.MIXTURE_PARAMETERS).random(len(graphs))
        return np.minimum((share < point).sum(axis=0), len(self.weights) - 1)


@dataclass(frozen=True, eq=False)
class MixtureDetails(Details):
    """What a mixture of fits reports.

    Attributes
    ----------
    fits
        How many fits it is made of.
    bag_rows
        How many rows each has seen.
    specifications
        The margins, mechanism, seed and number of rows of each fit.
    statuses
        How each fit ended.
    on_scale
        How many of them give parameters in the units of the table.
    spread
        The standard deviation of P(i → j) between fits.
    """

    fits: int = diagnostic("Fits in the mixture")
    bag_rows: int = diagnostic("Rows of each fit")
    specifications: tuple[Mapping[str, Any], ...] = diagnostic("Specification of each fit")
    statuses: tuple[str, ...] = diagnostic("How each fit ended")
    on_scale: int = diagnostic("Fits whose parameters are in the units of the table")
    largest_spread: float = diagnostic("Largest standard deviation of an arrow between fits")
    spread: Float[np.ndarray, "m m"] = diagnostic("Spread between fits, by arrow", shown=False)


def _by_component(chosen: Int[np.ndarray, " S"]) -> Iterator[tuple[int, Int[np.ndarray, " s"]]]:
    for c in np.unique(chosen):
        yield int(c), np.flatnonzero(chosen == c)


def _weighted_log_probabilities(
    components: tuple[GraphDistribution, ...],
    weights: Float[np.ndarray, " fits"],
    graphs: UInt8[np.ndarray, "S m m"],
) -> Float[np.ndarray, "fits S"] | None:
    terms = []
    for component, weight in zip(components, weights, strict=True):
        log_p = component.log_probability(graphs)
        if log_p is None:
            return None
        terms.append(log_p + np.log(weight))
    return np.stack(terms)


def _joined(mixture: MixtureEquations) -> LinearEquations:
    """Linear equations of several fits as one, which has effects in closed form."""
    order = np.argsort(np.concatenate(mixture.rows))
    fields = (
        np.concatenate([getattr(part, name) for part in mixture.parts])[order]
        for name in ("weights", "intercept", "noise_sd")
    )
    return LinearEquations(mixture.graphs, *fields)
