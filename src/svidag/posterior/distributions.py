"""How the graphs of a posterior are known: exactly, by sampling, or as a list."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8

from svidag.run.streams import Stream, generator

DRAWS = 2000  # draws behind a summary that has no closed form: standard error at most 0.011
MOST_CELLS = 2**29  # cells of all draws behind a summary: half a gigabyte


def usual_draws(m: int) -> int:
    """Draws of graphs with m variables behind a summary: fewer where they would not fit in memory.

    Examples
    --------
    >>> usual_draws(500), usual_draws(1000)
    (2000, 536)
    """
    return max(100, min(DRAWS, MOST_CELLS // max(1, m) ** 2))


class GraphDistribution(abc.ABC):
    """A distribution over DAGs with m nodes."""

    @abc.abstractmethod
    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws of A."""

    @abc.abstractmethod
    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """P(i → j)."""

    @abc.abstractmethod
    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> Float[np.ndarray, " S"] | None:
        """log P(A) of given graphs; None where it can only be estimated from draws."""


@dataclass(frozen=True, eq=False)
class DrawnGraphs(GraphDistribution):
    """A distribution on a list of graphs, each with its probability."""

    graphs: UInt8[np.ndarray, "k m m"]
    probability: Float[np.ndarray, " k"]

    @staticmethod
    def equal(graphs: UInt8[np.ndarray, "k m m"]) -> DrawnGraphs:
        """Graphs that count alike.

        Examples
        --------
        >>> graphs = np.array([[[0, 1], [0, 0]], [[0, 0], [0, 0]]], dtype=np.uint8)
        >>> DrawnGraphs.equal(graphs).edge_probabilities()[0].tolist()
        [0.0, 0.5]
        """
        return DrawnGraphs(graphs, np.full(len(graphs), 1 / len(graphs)))

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws from the list."""
        rng = generator(seed, Stream.GRAPH_DRAWS)
        return self.graphs[rng.choice(len(self.graphs), size=n, p=self.probability)]

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """The weighted share of graphs with the edge."""
        return np.einsum("k,kij->ij", self.probability, self.graphs.astype(float))

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> Float[np.ndarray, " S"]:
        """The log of the summed probability of equal graphs in the list."""
        known: dict[bytes, float] = {}
        for graph, p in zip(self.graphs, self.probability, strict=True):
            known[graph.tobytes()] = known.get(graph.tobytes(), 0.0) + float(p)
        with np.errstate(divide="ignore"):
            return np.log([known.get(np.ascontiguousarray(g).tobytes(), 0.0) for g in graphs])


@dataclass(frozen=True, eq=False)
class MagnitudeGraphs(DrawnGraphs):
    """Drawn graphs whose edge probabilities are taken from magnitudes of weights.

    Each draw's magnitudes |W| are divided by their largest. An edge is at least half of it, but the
    probability of an edge is the mean magnitude: how published results of methods with weighted
    graphs were scored, for comparison with them only.
    """

    magnitudes: Float[np.ndarray, "m m"]

    @classmethod
    def of(cls, weights: Float[np.ndarray, "S m m"]) -> MagnitudeGraphs:
        """The graphs of weights W.

        Examples
        --------
        >>> graphs = MagnitudeGraphs.of(np.array([[[0.0, -2.0], [0.0, 0.0]]]))
        >>> graphs.edge_probabilities().tolist()
        [[0.0, 1.0], [0.0, 0.0]]
        """
        size = np.abs(weights)
        largest = size.max(axis=(1, 2), keepdims=True)
        scaled = size / np.where(largest > 0, largest, 1.0)
        share = np.full(len(weights), 1 / len(weights))
        return cls((scaled >= 0.5).astype(np.uint8), share, scaled.mean(axis=0))

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """The mean of |W| over the largest |W| of its draw."""
        return self.magnitudes
