"""Graph distributions made from chains over orders: sampled orders, or sampled graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, UInt8

from svidag.posterior import GraphDistribution
from svidag.run.streams import Stream, generator
from svidag.samplers.order_chains import draw_graphs
from svidag.scores import ScoreTables


@dataclass(frozen=True, eq=False)
class SampledOrders(GraphDistribution):
    """Draws a kept order at random, then every node's parents from their exact conditional.

    Attributes
    ----------
    tables
        The weights of parent sets.
    orders
        Orders from the posterior, causes first.
    edges
        P(i → j), averaged over more orders than were kept.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.prior import Prior
    >>> from svidag.scores import NodeTable
    >>> a, b = (NodeTable(np.array([i]), np.array([0, 1]), np.zeros(2)) for i in (1, 0))
    >>> tables = ScoreTables.of([a, b], Prior(p=0.5).bind("ab"))
    >>> distribution = SampledOrders(tables, np.array([[0, 1]]), np.array([[0.0, 0.5], [0.0, 0.0]]))
    >>> distribution.sample(100, seed=0)[:, 1, 0].sum()
    np.uint64(0)
    """

    tables: ScoreTables
    orders: Int[np.ndarray, "kept m"]
    edges: Float[np.ndarray, "m m"]

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws given the kept orders."""
        chosen = generator(seed, Stream.ORDER_DRAWS).integers(len(self.orders), size=n)
        return draw_graphs(self.tables, self.orders[chosen], seed=seed)

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """The exact conditional given each visited order, averaged over all of them."""
        return self.edges

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> None:
        """Not available: the evidence of all orders together is not known."""


@dataclass(frozen=True, eq=False)
class VisitedGraphs(GraphDistribution):
    """Draws a kept graph at random; edge probabilities are averaged over all visited orders.

    Attributes
    ----------
    graphs
        Graphs that the chains kept, equally probable.
    edges
        P(i → j), averaged over the conditionals given all visited orders (Rao–Blackwell).

    Examples
    --------
    >>> import numpy as np
    >>> kept = np.array([[[0, 1], [0, 0]], [[0, 0], [0, 0]]], dtype=np.uint8)
    >>> distribution = VisitedGraphs(kept, np.array([[0.0, 0.4], [0.0, 0.0]]))
    >>> distribution.sample(3, seed=0).shape, float(distribution.edge_probabilities()[0, 1])
    ((3, 2, 2), 0.4)
    """

    graphs: UInt8[np.ndarray, "kept m m"]
    edges: Float[np.ndarray, "m m"]

    def sample(self, n: int, seed: int) -> UInt8[np.ndarray, "n m m"]:
        """Independent draws from the kept graphs."""
        chosen = generator(seed, Stream.GRAPH_DRAWS).integers(len(self.graphs), size=n)
        return self.graphs[chosen]

    def edge_probabilities(self) -> Float[np.ndarray, "m m"]:
        """The conditional given each visited order, averaged over all of them."""
        return self.edges

    def log_probability(self, graphs: UInt8[np.ndarray, "S m m"]) -> None:
        """Not available: the evidence of all orders together is not known."""
