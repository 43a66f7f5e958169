"""The probabilities of discrete variables, drawn exactly from the posterior behind the BDeu score.

Given the parents, each of their configurations c has probabilities

    (θ_c1, …, θ_cr) ~ Dirichlet(a/(q r) + n_c1, …, a/(q r) + n_cr),

independently of all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from scipy.special import logsumexp

from svidag.mechanisms.discrete import DiscreteTables, configurations
from svidag.mechanisms.equations import ParameterDistribution, family_generator
from svidag.mechanisms.nodewise import (
    NodeEquation,
    NodewiseEquations,
    chosen_levels,
    draw_by_family,
    level_noise,
)

MOST_CELLS = 5_000_000
"""Probabilities of one node that are drawn at most."""


@dataclass(frozen=True, eq=False)
class ProbabilityTable(NodeEquation):
    """p(x_j = k | configuration c of the parents) = exp(log_table[c, k]).

    Examples
    --------
    >>> table = ProbabilityTable(1, np.array([0]), np.array([2]), np.log([[0.9, 0.1], [0.2, 0.8]]))
    >>> table.value(np.array([[0.0, np.nan], [1.0, np.nan]]), np.zeros(2)).tolist()
    [0.0, 1.0]
    """

    node: int
    parents: Int[np.ndarray, " l"]
    sizes: Int[np.ndarray, " l"]
    log_table: Float[np.ndarray, "q r"]

    def _place(self, rows: Float[np.ndarray, "N m"]) -> Int[np.ndarray, " N"]:
        return configurations(rows[:, self.parents].T.astype(np.int64), self.sizes)

    def log_density(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, " N"]:
        """The log probability of the level in each row."""
        return self.log_table[self._place(rows), rows[:, self.node].astype(np.int64)]

    def value(
        self, rows: Float[np.ndarray, "R m"], noise: Float[np.ndarray, " R"]
    ) -> Float[np.ndarray, " R"]:
        """A level for each row."""
        return chosen_levels(np.exp(self.log_table[self._place(rows)]), noise)

    def noise(
        self, rows: Float[np.ndarray, "R m"], uniform: Float[np.ndarray, " R"]
    ) -> Float[np.ndarray, " R"]:
        """Noise that picks the level of each row."""
        probabilities = np.exp(self.log_table[self._place(rows)])
        return level_noise(probabilities, rows[:, self.node].astype(np.int64), uniform)


@dataclass(frozen=True, eq=False)
class DiscreteParameters(ParameterDistribution):
    """p(tables of probabilities | A, D) under BDeu.

    Attributes
    ----------
    model
        The codes and the equivalent sample size.

    Examples
    --------
    >>> codes = np.array([[0, 1] * 50, [0, 1] * 50])
    >>> model = DiscreteTables(codes, np.array([2, 2]), np.ones((2, 100), dtype=bool))
    >>> drawn = DiscreteParameters(model).parameters(np.array([[0, 1], [0, 0]], np.uint8), 9, 0)
    >>> drawn["1"].shape, bool((drawn["1"][:, 0, 0] > 0.9).all())
    ((9, 2, 2), True)
    """

    model: DiscreteTables

    def parameters(
        self, graph: UInt8[np.ndarray, "m m"], n: int, seed: int
    ) -> dict[str, np.ndarray]:
        """By the place of each variable as text, its table [n, configurations, levels]."""
        drawn = self.draw(np.repeat(graph[None], n, axis=0), seed).equations
        tables = {}
        for j in range(len(graph)):
            own = [drawn[s, j] for s in range(n)]
            tables[str(j)] = np.exp(
                [table.log_table for table in own if isinstance(table, ProbabilityTable)]
            )
        return tables

    def draw(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> NodewiseEquations:
        """Draw the tables of every chosen node, once for each graph."""

        def tables(j: int, parents: Int[np.ndarray, " l"], count: int) -> list[NodeEquation]:
            alpha = self.concentration(j, parents)
            rng = family_generator(seed, j, parents)
            return [self._table(j, parents, _log_dirichlet(alpha, rng)) for _ in range(count)]

        return draw_by_family(graphs, nodes, tables)

    def centre(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> NodewiseEquations:
        """Every probability at its posterior mean."""

        def tables(j: int, parents: Int[np.ndarray, " l"], count: int) -> list[NodeEquation]:
            alpha = self.concentration(j, parents)
            mean = np.log(alpha / alpha.sum(axis=1, keepdims=True))
            return [self._table(j, parents, mean) for _ in range(count)]

        return draw_by_family(graphs, nodes, tables)

    def concentration(self, node: int, parents: Int[np.ndarray, " l"]) -> Float[np.ndarray, "q r"]:
        """α_ck + n_ck: the Dirichlet distribution of every configuration, given the table."""
        cells = float(np.prod(self.model.sizes[parents].astype(float))) * self.model.sizes[node]
        if cells > MOST_CELLS:
            raise ValueError(
                f"a variable has {len(parents)} causes with {cells:.1g} combinations of values: "
                "its probabilities cannot be drawn"
            )
        return self.model.sample_size / cells + self.model.counts(node, parents)

    def _table(
        self, j: int, parents: Int[np.ndarray, " l"], log_table: Float[np.ndarray, "q r"]
    ) -> ProbabilityTable:
        return ProbabilityTable(j, parents, self.model.sizes[parents], log_table)


def _log_dirichlet(
    alpha: Float[np.ndarray, "q r"], rng: np.random.Generator
) -> Float[np.ndarray, "q r"]:
    """log θ, θ ~ Dirichlet(α); tiny α must not underflow: log G(α) = log G(α + 1) + log(u)/α."""
    logs = np.log(rng.standard_gamma(alpha + 1.0)) + np.log(1.0 - rng.random(alpha.shape)) / alpha
    return logs - np.asarray(logsumexp(logs, axis=1, keepdims=True))
