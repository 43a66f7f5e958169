"""The parameters of the wide network, drawn exactly from the posterior behind its evidence.

Given the parent set S, the features Φ and a prior precision λ,

    λ ~ its share of the evidence, exp f_j(S | λ),
    σ² | λ ~ InvGamma(1 + N/2, 1 + ½ (yᵀy − yᵀΦᵀ (G + λI)⁻¹ Φ y)),
    w | σ², λ ~ N((G + λI)⁻¹ Φ y, σ² (G + λI)⁻¹),

independently of all other nodes, with the same hidden layer as in the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from scipy.linalg import solve_triangular
from threadpoolctl import threadpool_limits

from svidag.data import Scaling
from svidag.mechanisms.equations import Equations, ParameterDistribution, schedule
from svidag.mechanisms.linear_parameters import in_table_units
from svidag.mechanisms.local import by_parent_set
from svidag.mechanisms.wide import (
    PRECISIONS,
    WideNetwork,
    joint_gram,
)
from svidag.run.cores import on_all_cores
from svidag.run.streams import Stream, generator

_UNITS_AT_ONCE = 500_000  # values of hidden units held at once: 4 MB


@dataclass(frozen=True, eq=False)
class WideEquations(Equations):
    """A linear part, hidden units of the standardised parents, and noise, for every graph.

        x_j = intercept_j + Σ_i weights_ij x_i + Σ_k hidden_jk max(0, d_kᵀ z − t_k) + noise_sd_j ε_j

    with z the standardised parents and d_k their directions, scaled to unit length; everything else
    is in the units of the table.
    """

    graphs: UInt8[np.ndarray, "S m m"]
    weights: Float[np.ndarray, "S m m"]
    intercept: Float[np.ndarray, "S m"]
    noise_sd: Float[np.ndarray, "S m"]
    hidden: Float[np.ndarray, "S m F"]
    directions: Float[np.ndarray, "m F"]
    thresholds: Float[np.ndarray, " F"]
    scaling: Scaling | None

    def log_likelihood(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "S N"]:
        """log p(row | A_s, θ_s); hidden units are computed once for every parent set."""
        total = np.zeros((len(self.graphs), len(rows)))
        standard = self._standard(rows)
        parents = self.graphs.swapaxes(1, 2).reshape(-1, rows.shape[1]).astype(bool)
        draws, nodes = (axis.ravel() for axis in np.indices(self.intercept.shape))
        # BLAS threads would cost more than these small products.
        with threadpool_limits(1, user_api="blas"):
            for pairs in by_parent_set(nodes, parents):
                s, j = draws[pairs], nodes[pairs]
                units = self._units(standard, np.flatnonzero(parents[pairs[0]]))
                mean = self.hidden[s, j] @ units.T + self.weights[s, :, j] @ rows.T
                mean += self.intercept[s, j][:, None]
                sd = self.noise_sd[s, j][:, None]
                total[s] -= 0.5 * ((rows[:, j].T - mean) / sd) ** 2 + np.log(
                    sd * np.sqrt(2 * np.pi)
                )
        return total

    def propagate(
        self,
        values: Float[np.ndarray, "S R m"],
        noise: Float[np.ndarray, "S R m"],
        nodes: Bool[np.ndarray, "S m"],
    ) -> Float[np.ndarray, "S R m"]:
        """Replace the chosen nodes by what their equations say, one of each graph at a time."""
        result = values.copy()
        turns = schedule(self.order, nodes)
        step = max(1, _UNITS_AT_ONCE // max(1, values.shape[1] * len(self.thresholds)))

        def work(start: int) -> None:
            part = slice(start, start + step)
            for turn in turns[part].T:
                active = np.flatnonzero(turn >= 0)
                if len(active) == 0:
                    break
                s, j = start + active, turn[active]
                mean = self._means(s, j, result[s])
                result[s, :, j] = mean + self.noise_sd[s, j][:, None] * noise[s, :, j]

        on_all_cores(work, range(0, len(result), step))
        return result

    def _means(
        self,
        s: Int[np.ndarray, " k"],
        j: Int[np.ndarray, " k"],
        values: Float[np.ndarray, "k R m"],
    ) -> Float[np.ndarray, "k R"]:
        """f_j of node j in graph s, for a batch of both."""
        parents = self.graphs[s, :, j].astype(bool)
        widest = int(parents.sum(axis=1).max())
        members = np.argsort(~parents, axis=1, kind="stable")[:, :widest]
        inside = np.take_along_axis(parents, members, axis=1)
        x = np.where(inside[:, None], np.take_along_axis(values, members[:, None], axis=2), 0.0)
        weights = self.weights[s[:, None], members, j[:, None]]
        mean = (x @ weights[:, :, None])[..., 0] + self.intercept[s, j][:, None]
        if widest == 0:
            return mean
        if self.scaling is not None:
            x = (x - self.scaling.centre[members][:, None]) / self.scaling.scale[members][:, None]
        chosen = self.directions[members] * inside[:, :, None]
        norm = np.sqrt((chosen**2).sum(axis=1, keepdims=True))
        units = x @ (chosen / np.where(norm > 0, norm, 1.0))
        units -= self.thresholds
        np.maximum(units, 0.0, out=units)
        return mean + (units @ self.hidden[s, j][:, :, None])[..., 0]

    def _standard(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "N m"]:
        return rows if self.scaling is None else self.scaling.apply(rows)

    def _units(
        self, standard: Float[np.ndarray, "N m"], parents: Int[np.ndarray, " l"]
    ) -> Float[np.ndarray, "N F"]:
        chosen = self.directions[parents]
        norm = np.sqrt((chosen**2).sum(axis=0)) if len(parents) else 1.0
        return np.maximum(standard[:, parents] @ (chosen / norm) - self.thresholds, 0.0)


@dataclass(frozen=True, eq=False)
class WideParameters(ParameterDistribution):
    """p(output weights, noise | A, D) of the wide network.

    Attributes
    ----------
    model
        The data and the hidden layer, in the scale of the fit.
    scaling
        From the units of the table to that scale; None where they are the same.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((300, 2))
    >>> x[:, 1] = np.abs(x[:, 0]) + 0.1 * x[:, 1]
    >>> distribution = WideParameters(WideNetwork.from_values(x, ("a", "b")), scaling=None)
    >>> equations = distribution.draw(np.array([[[0, 1], [0, 0]]], dtype=np.uint8), seed=0)
    >>> values = np.array([[[-1.0, 0.0], [1.0, 0.0]]])
    >>> b_follows = np.array([[False, True]])
    >>> equations.propagate(values, np.zeros((1, 2, 2)), b_follows)[0, :, 1].round(1).tolist()
    [1.0, 1.0]
    """

    model: WideNetwork
    scaling: Scaling | None

    def parameters(
        self, graph: UInt8[np.ndarray, "m m"], n: int, seed: int
    ) -> dict[str, np.ndarray]:
        """`weights` [n, m, m], `intercept` and `noise_sd` [n, m], and `hidden` [n, m, F].

        As in `WideEquations`: the whole mean of a node is its linear part plus hidden units.
        """
        drawn = self.draw(np.repeat(graph[None], n, axis=0), seed)
        return {
            "weights": drawn.weights,
            "intercept": drawn.intercept,
            "hidden": drawn.hidden,
            "noise_sd": drawn.noise_sd,
        }

    def draw(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> WideEquations:
        """Draw λ, σ and w of every chosen node; a parent set is factorised once for all graphs."""
        return self._equations(graphs, nodes, lambda regressions, j: regressions.draw(j, seed))

    def centre(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> WideEquations:
        """The most probable λ, and w at its mean."""
        return self._equations(graphs, nodes, lambda regressions, j: regressions.centre(j))

    def _equations(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        nodes: Bool[np.ndarray, "S m"] | None,
        choose: Callable[[Regressions, np.ndarray], tuple[np.ndarray, np.ndarray]],
    ) -> WideEquations:
        """The equations for w and σ as `choose` gives them for the nodes of a parent set."""
        model = self.model
        units = len(model.thresholds)
        weights = np.zeros(graphs.shape)
        intercept, sd = np.full((2, *graphs.shape[:2]), np.nan)
        hidden = np.zeros((*graphs.shape[:2], units))
        draws, targets = np.nonzero(np.ones(sd.shape, dtype=bool) if nodes is None else nodes)
        parents = graphs[draws, :, targets].astype(bool)

        def work(pairs: np.ndarray) -> None:
            s, j = draws[pairs], targets[pairs]
            members = np.flatnonzero(parents[pairs[0]])
            w, sd[s, j] = choose(Regressions.build(model, members, np.unique(j)), j)
            weights[s[:, None], members, j[:, None]] = 0.5 * w[:, : len(members)]
            intercept[s, j] = 0.5 * w[:, len(members)]
            if len(members):
                hidden[s, j] = np.sqrt(2 / max(units, 1)) * w[:, len(members) + 1 :]

        on_all_cores(work, by_parent_set(model.group[targets], parents))
        if self.scaling is not None:
            hidden *= self.scaling.scale[:, None]
        return WideEquations(
            graphs,
            *in_table_units(weights, intercept, sd, self.scaling),
            hidden,
            model.directions,
            model.thresholds,
            self.scaling,
        )


@dataclass(frozen=True, eq=False)
class Regressions:
    """The posterior of output weights and noise for one parent set and the nodes that have it.

    Attributes
    ----------
    nodes, parents
        The nodes, sorted, and the parent set as a bit mask.
    factors
        Cholesky factors of G + λI.
    whitened
        (G + λI)^(−½) Φ y.
    residual
        yᵀy − yᵀΦᵀ (G + λI)⁻¹ Φ y.
    share
        p(λ | D).
    rows
        The number of rows N, times their weight.
    """

    nodes: Int[np.ndarray, " targets"]
    parents: int
    factors: Float[np.ndarray, "precisions q q"]
    whitened: Float[np.ndarray, "precisions targets q"]
    residual: Float[np.ndarray, "precisions targets"]
    share: Float[np.ndarray, "precisions targets"]
    rows: float

    @classmethod
    def build(
        cls,
        model: WideNetwork,
        parents: Int[np.ndarray, " l"],
        nodes: Int[np.ndarray, " targets"],
    ) -> Regressions:
        """Regress nodes that share their rows on the features of one parent set."""
        features = model.feature_weights(parents)
        inputs, targets = model.design(parents, nodes)
        q, n = len(features), inputs.shape[1]
        n *= model.weight
        gram = model.weight * joint_gram(features, inputs, targets)
        # With b a row below the features' block A, the rows below the factor of A + λI are
        # b (A + λI)^(−½).
        added = np.where(np.arange(len(gram)) < q, np.array(PRECISIONS)[:, None], 1.0)
        whole = np.linalg.cholesky(gram + added[:, :, None] * np.eye(len(gram)))
        factors, whitened = whole[:, :q, :q], whole[:, q:, :q]
        residual = np.diag(gram)[q:] - (whitened**2).sum(axis=2)
        log_root = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        volume = q / 2 * np.log(PRECISIONS) - log_root
        evidence = volume[:, None] - (1 + n / 2) * np.log1p(residual / 2)
        share = np.exp(evidence - np.logaddexp.reduce(evidence))
        mask = sum(1 << int(i) for i in parents)
        return cls(nodes, mask, factors, whitened, residual, share, n)

    def draw(
        self, wanted: Int[np.ndarray, " c"], seed: int
    ) -> tuple[Float[np.ndarray, "c q"], Float[np.ndarray, " c"]]:
        """w and σ for each node named, again for every time it is named."""
        w = np.empty((len(wanted), self.factors.shape[1]))
        sd = np.empty(len(wanted))
        for position, node in enumerate(self.nodes):
            rng = generator(seed, Stream.PARAMETERS, int(node), self.parents)
            at = wanted == node
            w[at], sd[at] = self._draw_node(position, int(at.sum()), rng)
        return w, sd

    def centre(
        self, wanted: Int[np.ndarray, " c"]
    ) -> tuple[Float[np.ndarray, "c q"], Float[np.ndarray, " c"]]:
        """Mean w and typical σ of each node named, under its most probable λ."""
        position = np.searchsorted(self.nodes, wanted)
        level = self.share[:, position].argmax(axis=0)
        sd = np.sqrt((1 + self.residual[level, position] / 2) / (1 + self.rows / 2))
        roots = zip(self.factors[level], self.whitened[level, position], strict=True)
        w = [solve_triangular(root, v, lower=True, trans=1) for root, v in roots]
        return np.array(w), sd

    def _draw_node(
        self, position: int, count: int, rng: np.random.Generator
    ) -> tuple[Float[np.ndarray, "c q"], Float[np.ndarray, " c"]]:
        uniform, gamma, normal = rng.spawn(3)
        below = np.cumsum(self.share[:, position])[:-1, None]
        level = (uniform.random(count) >= below).sum(axis=0)
        rate = 1 + self.residual[level, position] / 2
        sd = np.sqrt(rate / gamma.standard_gamma(1 + self.rows / 2, count))
        noise = normal.standard_normal((count, self.factors.shape[1]))
        w = self.whitened[level, position] + sd[:, None] * noise
        for k in np.unique(level):
            at = level == k
            w[at] = solve_triangular(
                self.factors[k], w[at].T, lower=True, trans=1, check_finite=False
            ).T
        return w, sd
