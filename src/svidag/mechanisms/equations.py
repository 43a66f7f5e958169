"""What a fit knows about mechanisms: p(θ | A, D), and the equations that a draw of θ stands for.

Given a graph and its parameters, every variable has an equation

    x_j = f_j(x_parents; θ_j) + σ_j ε_j,    ε_j ~ N(0, 1).

`ParameterDistribution` draws the parameters; `Equations` answers for many graphs at once, each with
one draw, all in the units of the table. An intervention replaces an equation by a value.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from svidag.graph import ancestors
from svidag.run.cores import on_all_cores
from svidag.run.streams import Stream, generator


class Equations(abc.ABC):
    """Structural equations of S graphs, in the units of the table.

    Attributes
    ----------
    graphs
        The graphs A_s.
    """

    graphs: UInt8[np.ndarray, "S m m"]

    @cached_property
    def order(self) -> Int[np.ndarray, "S m"]:
        """The nodes of each graph, causes before effects.

        A node has more ancestors than any of its ancestors, so their number sorts the nodes.
        """
        return np.argsort(ancestors(self.graphs).sum(axis=1), axis=1, kind="stable")

    @abc.abstractmethod
    def log_likelihood(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "S N"]:
        """log p(row | A_s, θ_s)."""

    @abc.abstractmethod
    def propagate(
        self,
        values: Float[np.ndarray, "S R m"],
        noise: Float[np.ndarray, "S R m"],
        nodes: Bool[np.ndarray, "S m"],
    ) -> Float[np.ndarray, "S R m"]:
        """Replace the chosen nodes by what their equations say, causes before effects.

        Nodes that are not chosen keep their values, whether set from outside, known from before,
        or NaN where nothing depends on them. `noise` is ε, standard normal and by node, so that
        two calls that share it follow the same units through two interventions.
        """

    def propagate_by_node(
        self,
        values: Float[np.ndarray, "S R m"],
        noise: Float[np.ndarray, "S R m"],
        nodes: Bool[np.ndarray, "S m"],
        value: Callable[[int, int, np.ndarray, np.ndarray], np.ndarray],
    ) -> Float[np.ndarray, "S R m"]:
        """`propagate` by ``value(s, j, rows, ε_j)`` of one node of one graph at a time."""
        result = np.array(values, dtype=float)
        turns = schedule(self.order, nodes)

        def work(s: int) -> None:
            for j in turns[s][turns[s] >= 0].tolist():
                result[s, :, j] = value(s, j, result[s], noise[s, :, j])

        on_all_cores(work, range(len(result)))
        return result


class ParameterDistribution(abc.ABC):
    """p(θ | A, D): how effects follow from their causes, given the graph; in original units."""

    @abc.abstractmethod
    def parameters(
        self, graph: UInt8[np.ndarray, "m m"], n: int, seed: int
    ) -> dict[str, np.ndarray]:
        """Draw the parameters n times; each array has the draws on its first axis."""

    @abc.abstractmethod
    def draw(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> Equations:
        """Draw θ once for each graph, independently even where graphs are equal.

        If `nodes` are given, only their equations are needed; those of others may be NaN.
        """

    def centre(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> Equations:
        """Equations with θ at the centre of its distribution, for residuals; else one draw."""
        return self.draw(graphs, 0, nodes)

    def log_likelihood(
        self, graphs: UInt8[np.ndarray, "S m m"], rows: Float[np.ndarray, "N m"], seed: int
    ) -> Float[np.ndarray, "S N"]:
        """log p(row | A, θ) with one draw of θ for each graph."""
        return self.draw(graphs, seed).log_likelihood(rows)


def schedule(
    order: Int[np.ndarray, "S m"], nodes: Bool[np.ndarray, "S m"]
) -> Int[np.ndarray, "S m"]:
    """The chosen nodes of each graph in this order, and then −1.

    Examples
    --------
    >>> schedule(np.array([[2, 1, 0]]), np.array([[True, False, True]])).tolist()
    [[2, 0, -1]]
    """
    chosen = np.take_along_axis(nodes, order, axis=1)
    first = np.argsort(~chosen, axis=1, kind="stable")
    turns = np.where(chosen, order, -1)
    return np.take_along_axis(turns, first, axis=1)


def family_generator(seed: int, node: int, parents: Int[np.ndarray, " l"]) -> np.random.Generator:
    """Random numbers for the parameters of a node with these parents, whatever the graph.

    Examples
    --------
    >>> one, again = (family_generator(3, 0, np.array([1, 2])) for _ in range(2))
    >>> bool(one.random() == again.random())
    True
    """
    mask = sum(1 << int(i) for i in parents)
    return generator(seed, Stream.PARAMETERS, node, mask)
