"""Equations of which every variable has its own form: tables of probabilities, regressions.

A variable's equation turns standard normal noise ε into a value, given its causes. For a discrete
one with probabilities π_1, …, π_K that is the level k with Φ(ε) between π_1 + … + π_{k−1} and
π_1 + … + π_k, so that two interventions can be followed with the same noise.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from scipy.special import ndtr, ndtri

from svidag.mechanisms.equations import Equations
from svidag.mechanisms.local import by_parent_set
from svidag.run.cores import on_all_cores


class NodeEquation(abc.ABC):
    """The equation of one variable, with its parameters."""

    @abc.abstractmethod
    def log_density(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, " N"]:
        """log p(x_j | its causes) of every row."""

    @abc.abstractmethod
    def value(
        self, rows: Float[np.ndarray, "R m"], noise: Float[np.ndarray, " R"]
    ) -> Float[np.ndarray, " R"]:
        """x_j, from its causes and standard normal noise."""

    @abc.abstractmethod
    def noise(
        self, rows: Float[np.ndarray, "R m"], uniform: Float[np.ndarray, " R"]
    ) -> Float[np.ndarray, " R"]:
        """Noise that gives the x_j of each row; where much noise does, a uniform number chooses."""


@dataclass(frozen=True, eq=False)
class NodewiseEquations(Equations):
    """An equation for every variable of every graph, in the units of the table.

    Attributes
    ----------
    graphs
        The graphs A_s.
    equations
        By graph and variable; only those that were asked for.
    """

    graphs: UInt8[np.ndarray, "S m m"]
    equations: Mapping[tuple[int, int], NodeEquation]

    def log_likelihood(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "S N"]:
        """log p(row | A_s, θ_s)."""
        total = np.zeros((len(self.graphs), len(rows)))
        for (s, _), equation in self.equations.items():
            total[s] += equation.log_density(rows)
        return total

    def propagate(
        self,
        values: Float[np.ndarray, "S R m"],
        noise: Float[np.ndarray, "S R m"],
        nodes: Bool[np.ndarray, "S m"],
    ) -> Float[np.ndarray, "S R m"]:
        """Replace the chosen nodes by what their equations say, one of each graph at a time."""

        def value(s: int, j: int, rows: np.ndarray, own: np.ndarray) -> np.ndarray:
            return self.equations[s, j].value(rows, own)

        return self.propagate_by_node(values, noise, nodes, value)


def draw_by_family(
    graphs: UInt8[np.ndarray, "S m m"],
    nodes: Bool[np.ndarray, "S m"] | None,
    draw: Callable[[int, Int[np.ndarray, " l"], int], list[NodeEquation]],
) -> NodewiseEquations:
    """Equations of all graphs; `draw` gives so many for a node with these parents."""
    shape = graphs.shape[:2]
    draws, targets = np.nonzero(np.ones(shape, dtype=bool) if nodes is None else nodes)
    parents = graphs[draws, :, targets].astype(bool)
    found: dict[tuple[int, int], NodeEquation] = {}

    def work(pairs: np.ndarray) -> None:
        j = int(targets[pairs[0]])
        drawn = draw(j, np.flatnonzero(parents[pairs[0]]), len(pairs))
        for s, equation in zip(draws[pairs].tolist(), drawn, strict=True):
            found[s, j] = equation

    on_all_cores(work, by_parent_set(targets, parents))
    return NodewiseEquations(graphs, found)


def level_noise(
    probabilities: Float[np.ndarray, "R K"],
    level: Int[np.ndarray, " R"],
    uniform: Float[np.ndarray, " R"],
) -> Float[np.ndarray, " R"]:
    """Standard normal noise that picks these levels: a randomised quantile residual.

    Examples
    --------
    >>> level_noise(np.array([[0.5, 0.5]]), np.array([1]), np.array([0.0])).tolist()
    [0.0]
    """
    row = np.arange(len(level))
    own = probabilities[row, level]
    below = probabilities.cumsum(axis=1)[row, level] - own
    tiny = np.finfo(float).eps
    return ndtri(np.clip(below + uniform * own, tiny, 1 - tiny))


def chosen_levels(
    probabilities: Float[np.ndarray, "R K"], noise: Float[np.ndarray, " R"]
) -> Float[np.ndarray, " R"]:
    """The levels that standard normal noise picks.

    Examples
    --------
    >>> chosen_levels(np.array([[0.2, 0.8], [0.7, 0.3]]), np.zeros(2)).tolist()
    [1.0, 0.0]
    """
    ends = probabilities.cumsum(axis=1)[:, :-1]
    return (ends < ndtr(noise)[:, None]).sum(axis=1).astype(float)
