"""The parameters of linear mechanisms, drawn exactly from the posterior behind the BGe score.

The normal–Wishart model of BGe gives node j with parents P the regression x_j = c + bᵀ x_P + σ ε.
With R, N and a = α_w − m as in the score, κ = N + α_μ, posterior means μ = N x̄/κ and l parents,

    σ² ~ InvGamma(½(N + a + l + 1), ½(R_jj − R_jP R_PP⁻¹ R_Pj)),
    b | σ² ~ N(R_PP⁻¹ R_Pj, σ² R_PP⁻¹),
    c | b, σ² ~ N(μ_j − bᵀ μ_P, σ²/κ),

independently of all other nodes. Its predictive density of a further row is the change of f_j(P).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8

from svidag.data import Scaling
from svidag.graph import ancestors
from svidag.mechanisms.equations import Equations, ParameterDistribution, schedule
from svidag.mechanisms.linear import LinearGaussian
from svidag.run.streams import Stream, generator


@dataclass(frozen=True, eq=False)
class LinearEquations(Equations):
    """x_j = intercept_j + Σ_i weights_ij x_i + noise_sd_j ε_j for every graph.

    Examples
    --------
    >>> import numpy as np
    >>> graph = np.array([[[0, 1, 1], [0, 0, 1], [0, 0, 0]]], dtype=np.uint8)
    >>> weights = np.array([[[0.0, 2.0, 1.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]])
    >>> equations = LinearEquations(graph, weights, np.zeros((1, 3)), np.ones((1, 3)))
    >>> float(equations.total_effects()[0, 0, 2])
    7.0
    """

    graphs: UInt8[np.ndarray, "S m m"]
    weights: Float[np.ndarray, "S m m"]
    intercept: Float[np.ndarray, "S m"]
    noise_sd: Float[np.ndarray, "S m"]

    def log_likelihood(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "S N"]:
        """log p(row | A_s, θ_s)."""
        everything = np.ones(self.intercept.shape, dtype=bool)
        whitening = self._system(everything) / self.noise_sd[:, None]
        shift = self.intercept / self.noise_sd
        residuals = (rows @ w - c for w, c in zip(whitening, shift, strict=True))
        squares = np.stack([np.einsum("nj,nj->n", r, r) for r in residuals])
        constant = np.log(self.noise_sd).sum(axis=1) + 0.5 * rows.shape[1] * np.log(2 * np.pi)
        return -constant[:, None] - 0.5 * squares

    def propagate(
        self,
        values: Float[np.ndarray, "S R m"],
        noise: Float[np.ndarray, "S R m"],
        nodes: Bool[np.ndarray, "S m"],
    ) -> Float[np.ndarray, "S R m"]:
        """Replace the chosen nodes by what their equations say: one triangular system a graph."""
        own = self.intercept[:, None] + self.noise_sd[:, None] * noise
        known = np.where(np.isnan(values), 0.0, values)
        solved = np.where(nodes[:, None], own, known) @ np.linalg.inv(self._system(nodes))
        return np.where(nodes[:, None], solved, values)

    def total_effects(self) -> Float[np.ndarray, "S m m"]:
        """What a unit of i adds to j along all paths, (I − W)⁻¹; 0 where no path leads."""
        everything = np.ones(self.intercept.shape, dtype=bool)
        inverse = np.linalg.inv(self._system(everything))
        return np.where(ancestors(self.graphs), inverse, 0.0)

    def responses(self, cause: int, nodes: Bool[np.ndarray, "S m"]) -> Float[np.ndarray, "S m"]:
        """What a unit of the cause adds to each node while only the chosen nodes follow.

        A row of (I − W)⁻¹ with W cut to the columns of these nodes; exactly 0 without a path.
        """
        added = np.zeros(nodes.shape)
        added[:, cause] = 1.0
        for turn in schedule(self.order, nodes).T:
            s = np.flatnonzero(turn >= 0)
            added[s, turn[s]] = np.einsum("si,si->s", added[s], self.weights[s, :, turn[s]])
        return added

    def _system(self, nodes: Bool[np.ndarray, "S m"]) -> Float[np.ndarray, "S m m"]:
        return np.eye(nodes.shape[1]) - self.weights * nodes[:, None]


@dataclass(frozen=True, eq=False)
class LinearParameters(ParameterDistribution):
    """p(coefficients, intercepts, noise | A, D) under BGe.

    Attributes
    ----------
    model
        The sufficient statistics and prior weights, in the scale of the fit.
    scaling
        From the units of the table to that scale; None where they are the same.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((500, 2)) @ np.array([[1.0, 2.0], [0.0, 1.0]])
    >>> distribution = LinearParameters(LinearGaussian.from_values(x), scaling=None)
    >>> drawn = distribution.parameters(np.array([[0, 1], [0, 0]], dtype=np.uint8), n=100, seed=0)
    >>> drawn["weights"].shape, round(float(drawn["weights"][:, 0, 1].mean()), 1)
    ((100, 2, 2), 2.0)
    """

    model: LinearGaussian
    scaling: Scaling | None

    def parameters(
        self, graph: UInt8[np.ndarray, "m m"], n: int, seed: int
    ) -> dict[str, np.ndarray]:
        """`weights` [n, m, m], of i in j at [:, i, j]; `intercept` and `noise_sd` [n, m]."""
        drawn = self.draw(np.repeat(graph[None], n, axis=0), seed)
        return {
            "weights": drawn.weights,
            "intercept": drawn.intercept,
            "noise_sd": drawn.noise_sd,
        }

    def draw(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> LinearEquations:
        """Draw b, c and σ of every chosen node, once for each graph."""
        z = generator(seed, Stream.PARAMETERS, 0).standard_normal(graphs.shape)
        chi = generator(seed, Stream.PARAMETERS, 1).chisquare(self._freedom(graphs))
        return self._equations(graphs, z, chi, nodes)

    def centre(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> LinearEquations:
        """b and c at their means."""
        return self._equations(graphs, np.zeros(graphs.shape), self._freedom(graphs), nodes)

    def _freedom(self, graphs: UInt8[np.ndarray, "S m m"]) -> Float[np.ndarray, "S m"]:
        model = self.model
        return model.rows[model.group] + model.scale_weight - model.m + graphs.sum(axis=1) + 1

    def _equations(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        z: Float[np.ndarray, "S m m"],
        chi: Float[np.ndarray, "S m"],
        nodes: Bool[np.ndarray, "S m"] | None,
    ) -> LinearEquations:
        """The equations for standard normal z and χ²: what a draw draws."""
        model = self.model
        weights, sd = np.zeros(graphs.shape), np.full(chi.shape, np.nan)
        draws, targets = np.nonzero(np.ones(chi.shape, dtype=bool) if nodes is None else nodes)
        parents = graphs[draws, :, targets].astype(bool)
        for part, size in model.batches(targets, parents, 1):
            s, j = draws[part], targets[part]
            members = np.nonzero(parents[part])[1].reshape(len(part), size)
            centre, root, left = regression(model, j, members)
            sd[s, j] = np.sqrt(left / chi[s, j])
            spread = np.einsum("bil,bi->bl", root, z[s[:, None], members, j[:, None]])
            weights[s[:, None], members, j[:, None]] = centre + sd[s, j][:, None] * spread
        mean = model.mean[model.group]  # [j, i]: of i over the rows that count for j
        kappa = model.rows[model.group] + model.mean_weight
        intercept = mean.diagonal() - np.einsum("sij,ji->sj", weights, mean)
        intercept += sd * z.diagonal(axis1=1, axis2=2) / np.sqrt(kappa)
        return LinearEquations(graphs, *in_table_units(weights, intercept, sd, self.scaling))


def in_table_units(
    weights: Float[np.ndarray, "S m m"],
    intercept: Float[np.ndarray, "S m"],
    sd: Float[np.ndarray, "S m"],
    scaling: Scaling | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Linear equations between standardised variables as equations between measured ones.

    Examples
    --------
    >>> import numpy as np
    >>> scaling = Scaling(centre=np.array([1.0, 0.0]), scale=np.array([2.0, 6.0]))
    >>> weights = np.array([[[0.0, 1.0], [0.0, 0.0]]])
    >>> W, c, sd = in_table_units(weights, np.zeros((1, 2)), np.ones((1, 2)), scaling)
    >>> float(W[0, 0, 1]), c.tolist(), sd.tolist()
    (3.0, [[1.0, -3.0]], [[2.0, 6.0]])
    """
    if scaling is None:
        return weights, intercept, sd
    scaled = weights * scaling.scale / scaling.scale[:, None]
    moved = (
        scaling.centre + scaling.scale * intercept - np.einsum("sij,i->sj", scaled, scaling.centre)
    )
    return scaled, moved, sd * scaling.scale


def regression(model: LinearGaussian, nodes: np.ndarray, members: np.ndarray):
    """R_PP⁻¹ R_Pj, the K with KᵀK = R_PP⁻¹, and R_jj − R_jP R_PP⁻¹ R_Pj."""
    group = model.group[nodes]
    inner = model.scatter[group[:, None, None], members[:, :, None], members[:, None, :]]
    across = model.scatter[group[:, None], members, nodes[:, None]]
    root = np.linalg.inv(np.linalg.cholesky(inner))
    whitened = np.einsum("bli,bi->bl", root, across)
    left = model.scatter[group, nodes, nodes] - (whitened**2).sum(axis=1)
    return np.einsum("bil,bi->bl", root, whitened), root, left
