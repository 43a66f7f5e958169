"""The parameters of mechanisms that may change with the environment.

For each graph an environment is drawn by its share of the rows, and for each node whether and how
its mechanism changes; equations are those of that environment. So an average over draws is one over
environments.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from svidag.data import Scaling
from svidag.mechanisms.environments import STRUCTURES, EnvironmentScores
from svidag.mechanisms.equations import Equations, ParameterDistribution
from svidag.mechanisms.linear_parameters import LinearEquations, LinearParameters
from svidag.mechanisms.nodewise import NodewiseEquations
from svidag.run.streams import Stream, generator

SEPARATE = STRUCTURES.index("separate")


@dataclass(frozen=True, eq=False)
class EnvironmentEquations(Equations):
    """Equations over variables and contrasts, of which each graph's have those of an environment.

    Attributes
    ----------
    graphs
        The graphs A_s over the variables.
    inner
        Equations over variables and contrasts.
    contrasts
        The contrasts of each graph's environment.
    """

    graphs: UInt8[np.ndarray, "S m m"]
    inner: Equations
    contrasts: Float[np.ndarray, "S d"]

    def log_likelihood(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "S N"]:
        """log p(row | A_s, θ_s, environment of s).

        Contrasts are given a standard normal density at their own value, which is subtracted.
        """
        if isinstance(self.inner, NodewiseEquations):
            return self._sum_of_nodes(self.inner, rows)
        total = np.empty((len(self.graphs), len(rows)))
        values, which = np.unique(self.contrasts, axis=0, return_inverse=True)
        for e, contrast in enumerate(values):
            own = which.ravel() == e
            found = self._centred(contrast).log_likelihood(_beside(rows, contrast))
            total[own] = found[own]
        return total + 0.5 * self.contrasts.shape[1] * np.log(2 * np.pi)

    def _sum_of_nodes(
        self, inner: NodewiseEquations, rows: Float[np.ndarray, "N m"]
    ) -> Float[np.ndarray, "S N"]:
        """Log densities of the variables, each by its own equation; contrasts have none."""
        total = np.zeros((len(self.graphs), len(rows)))
        for (s, j), equation in inner.equations.items():
            if j < self.graphs.shape[1]:
                total[s] += equation.log_density(_beside(rows, self.contrasts[s]))
        return total

    def _centred(self, contrast: Float[np.ndarray, " d"]) -> Any:
        """The equations with the contrasts at their value, plus standard normal noise."""
        inner: Any = self.inner
        m = self.graphs.shape[1]
        changed = {"intercept": contrast, "noise_sd": 1.0, "log_scale": 0.0, "beta": 0.0}
        fields = {}
        for name, value in changed.items():
            if hasattr(inner, name):
                array = getattr(inner, name).copy()
                array[:, m:] = value
                fields[name] = array
        return dataclasses.replace(inner, **fields)

    def propagate(
        self,
        values: Float[np.ndarray, "S R m"],
        noise: Float[np.ndarray, "S R m"],
        nodes: Bool[np.ndarray, "S m"],
    ) -> Float[np.ndarray, "S R m"]:
        """Replace the chosen nodes by what the equations say in each graph's environment."""
        size, m = values.shape[1], values.shape[2]
        beside = np.repeat(self.contrasts[:, None], size, axis=1)
        silent = np.zeros(beside.shape)
        idle = np.zeros(self.contrasts.shape, dtype=bool)
        return self.inner.propagate(
            np.concatenate([values, beside], axis=2),
            np.concatenate([noise, silent], axis=2),
            np.concatenate([nodes, idle], axis=1),
        )[:, :, :m]


@dataclass(frozen=True, eq=False)
class EnvironmentParameters(ParameterDistribution):
    """p(θ, environment, change | A, D).

    Attributes
    ----------
    model
        The mechanism, averaged over changes.
    inner
        The distribution over parameters of its base, with contrasts as further columns.
    scaling
        From the units of the table to those of the fit; None where they are the same.
    """

    model: EnvironmentScores
    inner: ParameterDistribution
    scaling: Scaling | None

    def parameters(
        self, graph: UInt8[np.ndarray, "m m"], n: int, seed: int
    ) -> dict[str, np.ndarray]:
        """`environment` of each draw, and the arrays of its equations.

        Those of linear mechanisms are of the variables in that environment; those of others have
        the contrasts as further columns.
        """
        graphs = np.repeat(graph[None], n, axis=0)
        drawn: Any = self.draw(graphs, seed)
        source = drawn if isinstance(drawn, LinearEquations) else drawn.inner
        if isinstance(source, NodewiseEquations):
            raise ValueError(
                "parameters of tables with discrete columns that change with the environment have "
                "no common form; ask for effects, do or predict"
            )
        found = {
            field.name: getattr(source, field.name)
            for field in dataclasses.fields(source)
            if field.name in ARRAYS
        }
        return {"environment": self._environments(n, seed), **found}

    def draw(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> Equations:
        """Draw an environment and, for each node, whether it changes; then θ."""
        return self._draw(self._environments(len(graphs), seed), graphs, seed, nodes)

    def draw_in(self, environment: int, graphs: UInt8[np.ndarray, "S m m"], seed: int) -> Equations:
        """The equations of one environment; calls with the same seed have the same θ."""
        return self._draw(np.full(len(graphs), environment), graphs, seed, None)

    def _draw(
        self,
        environment: Int[np.ndarray, " S"],
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None,
    ) -> Equations:
        share = self._probabilities(graphs).cumsum(axis=2)
        point = generator(seed, Stream.ENVIRONMENTS, 1).random(share.shape[:2])
        structure = np.minimum((share < point[..., None]).sum(axis=2), share.shape[2] - 1)
        wide, needed = self._beside(graphs, structure, nodes)
        drawn = self.inner.draw(wide, seed, needed)
        return self._equations(graphs, environment, structure, drawn, seed)

    def centre(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> Equations:
        """θ at its centre in the largest environment; nodes change if that is more probable."""
        return self.centre_in(int(self.model.shares.argmax()), graphs)

    def centre_in(self, environment: int, graphs: UInt8[np.ndarray, "S m m"]) -> Equations:
        """θ at its centre in an environment."""
        structure = self._probabilities(graphs).argmax(axis=2)
        beside, _ = self._beside(graphs, structure, None)
        return self._equations(
            graphs, np.full(len(graphs), environment), structure, self.inner.centre(beside), None
        )

    def _environments(self, n: int, seed: int) -> Int[np.ndarray, " S"]:
        shares = self.model.shares
        return generator(seed, Stream.ENVIRONMENTS, 0).choice(len(shares), n, p=shares)

    def _probabilities(self, graphs: UInt8[np.ndarray, "S m m"]) -> Float[np.ndarray, "S m k"]:
        """P(k | S, D) of every node of every graph; families are looked at once."""
        size, m = graphs.shape[:2]
        nodes = np.tile(np.arange(m), size)
        sets = graphs.swapaxes(1, 2).reshape(-1, m)
        different, which = np.unique(np.column_stack([nodes, sets]), axis=0, return_inverse=True)
        found = self.model.probabilities(different[:, 0], different[:, 1:].astype(bool))
        return found[which.ravel()].reshape(size, m, -1)

    @cached_property
    def _parts(self) -> tuple[LinearParameters, ...]:
        return tuple(LinearParameters(part, self.scaling) for part in self.model.parts)

    def _beside(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        structure: Int[np.ndarray, "S m"],
        nodes: Bool[np.ndarray, "S m"] | None,
    ) -> tuple[UInt8[np.ndarray, "S w w"], Bool[np.ndarray, "S w"]]:
        """Graphs with contrasts as parents of shifted nodes; and of which nodes θ is needed."""
        (size, m), d = graphs.shape[:2], self.model.contrasts.shape[1]
        wide = np.zeros((size, m + d, m + d), dtype=np.uint8)
        wide[:, :m, :m] = graphs
        wide[:, m:, :m] = (structure == 1)[:, None]
        needed = np.zeros((size, m + d), dtype=bool)
        needed[:, :m] = True if nodes is None else nodes
        return wide, needed

    def _equations(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        environment: Int[np.ndarray, " S"],
        structure: Int[np.ndarray, "S m"],
        drawn: Equations,
        seed: int | None,
    ) -> Equations:
        contrasts = self.model.contrasts[environment]
        if not isinstance(drawn, LinearEquations):
            return EnvironmentEquations(graphs, drawn, contrasts)
        m = graphs.shape[1]
        weights = drawn.weights[:, :m, :m].copy()
        shift = np.einsum("sc,scj->sj", contrasts, drawn.weights[:, m:, :m])
        intercept, sd = drawn.intercept[:, :m] + shift, drawn.noise_sd[:, :m].copy()
        for e, part in enumerate(self._parts):
            s, j = np.nonzero((structure == SEPARATE) & (environment == e)[:, None])
            if len(s):
                own = part.centre(graphs) if seed is None else part.draw(graphs, seed)
                weights[s, :, j], intercept[s, j] = own.weights[s, :, j], own.intercept[s, j]
                sd[s, j] = own.noise_sd[s, j]
        return LinearEquations(graphs, weights, intercept, sd)


ARRAYS = frozenset(
    [
        "weights",
        "intercept",
        "noise_sd",
        "hidden",
        "log_scale",
        "scale_slopes",
        "size_slopes",
        "beta",
    ]
)
"""Arrays of equations that are parameters."""


def _beside(
    rows: Float[np.ndarray, "N m"], contrast: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "N w"]:
    return np.column_stack([rows, np.tile(contrast, (len(rows), 1))])
