"""How probable further rows are, node by node: given parameters, and averaged over them.

The rows of an experiment have the density Π_j p(y_j | y_parents, D) over the nodes j that it does
not set, since parameters of different nodes are independent given the graph. So every node with a
parent set, a *family*, is looked at once, however many graphs have it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, logsumexp

from svidag.effects.kind_densities import SetDensities, table_predictive
from svidag.mechanisms.discrete_parameters import DiscreteParameters
from svidag.mechanisms.environment_parameters import EnvironmentEquations
from svidag.mechanisms.equations import Equations, ParameterDistribution
from svidag.mechanisms.flexible import draw_in, floored
from svidag.mechanisms.flexible_parameters import FlexibleEquations
from svidag.mechanisms.linear_parameters import LinearEquations, LinearParameters
from svidag.mechanisms.local import by_parent_set
from svidag.mechanisms.mixed_parameters import MixedParameters
from svidag.mechanisms.nodewise import NodewiseEquations
from svidag.mechanisms.residual_density import TiltedDensity
from svidag.posterior.mixture import MixtureEquations
from svidag.run.cores import on_all_cores
from svidag.run.streams import Stream, child_seed

PARAMETERS = 24
"""Draws of the parameters of a family, where they have no closed form to average over."""
MANY = 1000
"""Rows from which a noise density is interpolated between points of asinh z."""
_REACH = 2.0
_GRID = np.linspace(-_REACH, _REACH, 401)
_POINTS = np.sinh(_GRID)
VALUES_AT_ONCE = 10_000_000
"""Numbers held at once by equations that are followed: 80 MB."""


def log_densities(
    equations: Equations,
    nodes: Int[np.ndarray, " k"],
    rows: Float[np.ndarray, "N m"],
    which: Int[np.ndarray, " k"] | None = None,
) -> Float[np.ndarray, "k N"]:
    """log p(x_j | its parents, θ_s) of one node j of each graph s, or of the graphs `which`.

    Examples
    --------
    >>> graph = np.array([[[0, 1], [0, 0]]], dtype=np.uint8)
    >>> weights = np.array([[[0.0, 2.0], [0.0, 0.0]]])
    >>> equations = LinearEquations(graph, weights, np.zeros((1, 2)), np.ones((1, 2)))
    >>> log_densities(equations, np.array([1]), np.array([[1.0, 2.0]])).round(3).tolist()
    [[-0.919]]
    """
    s = np.arange(len(equations.graphs)) if which is None else which
    if isinstance(equations, MixtureEquations):
        found = np.empty((len(nodes), len(rows)))
        for own, part in zip(equations.rows, equations.parts, strict=True):
            here = np.flatnonzero(np.isin(s, own))
            found[here] = log_densities(part, nodes[here], rows, np.searchsorted(own, s[here]))
        return found
    if isinstance(equations, EnvironmentEquations):
        found = np.empty((len(nodes), len(rows)))
        for k, (draw, node) in enumerate(zip(s, nodes, strict=True)):
            beside = np.tile(equations.contrasts[draw], (len(rows), 1))
            wide = np.column_stack([rows, beside])
            found[k] = log_densities(equations.inner, np.array([node]), wide, np.array([draw]))[0]
        return found
    if isinstance(equations, NodewiseEquations):
        each = zip(s.tolist(), nodes.tolist(), strict=True)
        found = np.empty((len(nodes), len(rows)))  # of no pair, where no graph is of this part
        for k, pair in enumerate(each):
            found[k] = equations.equations[pair].log_density(rows)
        return found
    if isinstance(equations, FlexibleEquations):
        found = np.empty((len(nodes), len(rows)))
        parents = equations.graphs[s, :, nodes].astype(bool)

        def work(group: np.ndarray) -> None:
            found[group] = _flexible(equations, s[group], int(nodes[group[0]]), rows)

        on_all_cores(work, by_parent_set(nodes, parents))
        return found
    if isinstance(equations, LinearEquations):
        mean = equations.weights[s, :, nodes] @ rows.T + equations.intercept[s, nodes][:, None]
        sd = equations.noise_sd[s, nodes][:, None]
    else:
        every = np.zeros(len(equations.graphs), dtype=np.int64)
        every[s] = nodes
        mean, sd = (part[s] for part in _followed(equations, every, rows))
    return -0.5 * ((rows[:, nodes].T - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi))


def _flexible(
    equations: FlexibleEquations,
    s: Int[np.ndarray, " k"],
    j: int,
    rows: Float[np.ndarray, "N m"],
) -> Float[np.ndarray, "k N"]:
    """As `FlexibleEquations.predict`, for graphs in which the node has the same parents.

    What only depends on the parents is computed once: with 24 draws of the parameters that takes
    an eighth of the time.
    """
    parents = np.flatnonzero(equations.graphs[s[0], :, j])
    x, scaling = rows[:, parents], equations.scaling
    location = equations.weights[s[:, None], parents, j] @ x.T + equations.intercept[s, j][:, None]
    if len(parents) and equations.hidden[s, j].any():
        inputs = x
        if scaling is not None:
            inputs = (x - scaling.centre[parents]) / scaling.scale[parents]
        units = equations.model.hidden_units(inputs, parents)
        location += equations.hidden[s, j, : units.shape[1]] @ units.T
    u = draw_in((x - equations.centre[j, parents]) / equations.spread[j, parents])
    h = equations.scale_slopes[s[:, None], parents, j] @ u.T
    h += equations.size_slopes[s[:, None], parents, j] @ (np.abs(u) - equations.size[j, parents]).T
    log_scale = equations.log_scale[s, j][:, None] + floored(h)
    z = (rows[:, j] - location) * np.exp(-log_scale)
    return _noise_density(equations.beta[s, j], z) - log_scale


def _noise_density(
    beta: Float[np.ndarray, "k K"], z: Float[np.ndarray, "k N"]
) -> Float[np.ndarray, "k N"]:
    """log p(z | β); for many rows its tilt is interpolated, which takes a sixth of the time."""
    found = np.empty(z.shape)
    for k, own in enumerate(beta):
        density = TiltedDensity(own)
        if z.shape[1] < MANY or not own.any():
            found[k] = density.log_density(z[k])
            continue
        a = np.arcsinh(z[k])
        tilt = density.log_density(_POINTS) + 0.5 * _POINTS**2
        found[k] = np.interp(a, _GRID, tilt) - 0.5 * z[k] ** 2
        far = np.abs(a) > _REACH
        found[k, far] = density.log_density(z[k, far])
    return found


def _followed(
    equations: Equations, nodes: Int[np.ndarray, " S"], rows: Float[np.ndarray, "N m"]
) -> tuple[Float[np.ndarray, "S N"], Float[np.ndarray, "S 1"]]:
    """Mean and standard deviation of additive Gaussian noise: the equations at ε = 0 and 1."""
    size, m = len(nodes), rows.shape[1]
    alone = np.zeros((size, m), dtype=bool)
    alone[np.arange(size), nodes] = True
    step = max(1, VALUES_AT_ONCE // (size * m))
    means = []
    for start in range(0, len(rows), step):
        given = np.repeat(rows[None, start : start + step], size, axis=0)
        moved = equations.propagate(given, np.zeros(given.shape), alone)
        means.append(moved[np.arange(size), :, nodes])
    first = np.repeat(rows[None, :1], size, axis=0)
    shifted = equations.propagate(first, np.ones(first.shape), alone)
    mean = np.concatenate(means, axis=1)
    return mean, shifted[np.arange(size), :, nodes] - mean[:, :1]


@dataclass(eq=False)
class Families:
    """log p(y_j | y_parents, D) of families of one fit, each asked for many experiments at once.

    Attributes
    ----------
    distribution
        The parameters of the fit, given a graph.
    seed
        For draws of the parameters, where they have no closed form to average over.
    """

    distribution: ParameterDistribution
    seed: int
    _drawn: dict[tuple[int, bytes], Equations] = field(default_factory=dict, init=False)
    _sets: SetDensities | None = field(default=None, init=False)

    def log_predictive(
        self, node: int, parents: Int[np.ndarray, " l"], rows: Float[np.ndarray, "B R m"]
    ) -> Float[np.ndarray, " B"]:
        """The log density of R rows together, for each of B experiments."""
        if isinstance(self.distribution, LinearParameters):
            return linear_predictive(self.distribution, node, parents, rows)
        if isinstance(self.distribution, DiscreteParameters):
            return table_predictive(self.distribution, node, parents, rows)
        if isinstance(self.distribution, MixedParameters):
            if self._sets is None:
                self._sets = SetDensities(self.distribution, self.seed)
            return self._sets.family(node, parents, rows)
        equations = self._equations(node, parents, rows.shape[2])
        flat = rows.reshape(-1, rows.shape[2])
        nodes = np.full(PARAMETERS, node)
        terms = log_densities(equations, nodes, flat).reshape(PARAMETERS, *rows.shape[:2])
        return logsumexp(terms.sum(axis=2), axis=0) - np.log(PARAMETERS)

    def _equations(self, node: int, parents: Int[np.ndarray, " l"], m: int) -> Equations:
        key = node, parents.tobytes()
        if key not in self._drawn:
            graphs = np.zeros((PARAMETERS, m, m), dtype=np.uint8)
            graphs[:, parents, node] = 1
            alone = np.zeros((PARAMETERS, m), dtype=bool)
            alone[:, node] = True
            seed = child_seed(self.seed, Stream.EXPERIMENT_PARAMETERS, node, *map(int, parents))
            self._drawn[key] = self.distribution.draw(graphs, seed, alone)
        return self._drawn[key]


def linear_predictive(
    distribution: LinearParameters,
    node: int,
    parents: Int[np.ndarray, " l"],
    rows: Float[np.ndarray, "B R m"],
) -> Float[np.ndarray, " B"]:
    """The predictive density of R further rows under BGe, in closed form.

    With b, c and σ² as in `LinearParameters` and Z = [1, y_P − μ_P], the R values of a node are
    multivariate t with a degrees of freedom, location μ_j + (y_P − μ_P) b̂ and scale matrix
    (left / a)(I + Z K Zᵀ), K = diag(1/κ, R_PP⁻¹).
    """
    model, scaling = distribution.model, distribution.scaling
    values, jacobian = rows, 0.0
    if scaling is not None:
        values, jacobian = scaling.apply(rows), float(np.log(scaling.scale[node]))
    g, size, count = int(model.group[node]), len(parents), rows.shape[1]
    scatter, mean = model.scatter[g], model.mean[g]
    kappa = float(model.rows[g]) + model.mean_weight
    freedom = float(model.rows[g]) + model.scale_weight - model.m + size + 1
    inner, across = scatter[np.ix_(parents, parents)], scatter[parents, node]
    slopes = np.linalg.solve(inner, across)
    left = float(scatter[node, node] - across @ slopes)
    away = values[:, :, parents] - mean[parents]
    residual = values[:, :, node] - mean[node] - away @ slopes
    root = np.zeros((size + 1, size + 1))  # root rootᵀ = K
    root[0, 0] = 1 / np.sqrt(kappa)
    root[1:, 1:] = np.linalg.inv(np.linalg.cholesky(inner)).T
    design = np.concatenate([np.ones((*away.shape[:2], 1)), away], axis=2) @ root
    system = np.eye(size + 1) + design.swapaxes(1, 2) @ design
    projected = np.einsum("brk,br->bk", design, residual)
    explained = np.einsum(
        "bk,bk->b", projected, np.linalg.solve(system, projected[..., None])[..., 0]
    )
    square = (residual**2).sum(axis=1) - explained
    return (
        gammaln(0.5 * (freedom + count))
        - gammaln(0.5 * freedom)
        - 0.5 * count * np.log(np.pi * left)
        - 0.5 * np.linalg.slogdet(system)[1]
        - 0.5 * (freedom + count) * np.log1p(square / left)
        - count * jacobian
    )
