"""The parameters of flexible mechanisms, drawn from the approximation behind their evidence.

Given the parent set of a node,

    structure ~ its share of the evidence,
    θ = (w, g, β) | structure ~ N(mode, H⁻¹), H the information at the mode,

independently of all other nodes. Where rows say little about a tail, a draw of β may be so heavy
there that simulated values have no variance, or no density at all; where the mode has a variance
such a draw is moved halfway towards it until it has one too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from scipy.linalg import solve_triangular

from svidag.data import Scaling
from svidag.mechanisms.equations import Equations, ParameterDistribution, family_generator
from svidag.mechanisms.flexible import SINGLE_THRESHOLDS, FlexibleMechanism, draw_in, floored
from svidag.mechanisms.flexible_structures import Family, Structure
from svidag.mechanisms.linear_parameters import in_table_units
from svidag.mechanisms.local import by_parent_set
from svidag.mechanisms.residual_density import COEFFICIENTS, TiltedDensity
from svidag.run.cores import on_all_cores

_VARIANCE = 3.0  # tails that fall faster than this power have a variance


@dataclass(frozen=True, eq=False)
class FlexibleEquations(Equations):
    """Location, scale and noise of every node, for every graph, in the units of the table.

        x_j = intercept_j + Σ_i weights_ij x_i + Σ_k hidden_jk (hidden unit k of v)
              + exp(log_scale_j + s(Σ_i scale_slopes_ij u_i + size_slopes_ij (|u_i| − size_i))) z_j

    with z_j from the tilted density of β_j, v the parents in the scale of the fit, u_i the parents
    less `centre`, over `spread`, with far values drawn in, all by node, and s the floor under the
    scale. Location is not the mean where z has one other than 0.
    """

    graphs: UInt8[np.ndarray, "S m m"]
    weights: Float[np.ndarray, "S m m"]
    intercept: Float[np.ndarray, "S m"]
    hidden: Float[np.ndarray, "S m units"]
    log_scale: Float[np.ndarray, "S m"]
    scale_slopes: Float[np.ndarray, "S m m"]
    size_slopes: Float[np.ndarray, "S m m"]
    beta: Float[np.ndarray, "S m K"]
    model: FlexibleMechanism
    centre: Float[np.ndarray, "m m"]
    spread: Float[np.ndarray, "m m"]
    size: Float[np.ndarray, "m m"]
    scaling: Scaling | None

    def log_likelihood(self, rows: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "S N"]:
        """log p(row | A_s, θ_s)."""
        total = np.zeros((len(self.graphs), len(rows)))
        for s in range(len(self.graphs)):
            for j in range(rows.shape[1]):
                location, log_scale = self.predict(s, j, rows)
                z = (rows[:, j] - location) * np.exp(-log_scale)
                total[s] += TiltedDensity(self.beta[s, j]).log_density(z) - log_scale
        return total

    def propagate(
        self,
        values: Float[np.ndarray, "S R m"],
        noise: Float[np.ndarray, "S R m"],
        nodes: Bool[np.ndarray, "S m"],
    ) -> Float[np.ndarray, "S R m"]:
        """Replace the chosen nodes by what their equations say, one of each graph at a time.

        Standard normal noise becomes noise of the node's own density by its quantiles.
        """

        def value(s: int, j: int, rows: np.ndarray, own: np.ndarray) -> np.ndarray:
            location, log_scale = self.predict(s, j, rows)
            return location + np.exp(log_scale) * TiltedDensity(self.beta[s, j]).from_normal(own)

        return self.propagate_by_node(values, noise, nodes, value)

    def expected(self, s: int, j: int, rows: Float[np.ndarray, "R m"]) -> Float[np.ndarray, " R"]:
        """E[x_j | its parents] in graph s: location, and the mean of the noise times the scale."""
        location, log_scale = self.predict(s, j, rows)
        return location + np.exp(log_scale) * TiltedDensity(self.beta[s, j]).mean

    def predict(
        self, s: int, j: int, rows: Float[np.ndarray, "R m"]
    ) -> tuple[Float[np.ndarray, " R"], Float[np.ndarray, " R"]]:
        """Location and log scale of node j in graph s, given the values of its parents."""
        parents = np.flatnonzero(self.graphs[s, :, j])
        x = rows[:, parents]
        location = self.intercept[s, j] + x @ self.weights[s, parents, j]
        if len(parents) and self.hidden[s, j].any():
            inputs = x
            if self.scaling is not None:
                inputs = (x - self.scaling.centre[parents]) / self.scaling.scale[parents]
            units = self.model.hidden_units(inputs, parents)
            location += units @ self.hidden[s, j, : units.shape[1]]
        u = draw_in((x - self.centre[j, parents]) / self.spread[j, parents])
        h = u @ self.scale_slopes[s, parents, j]
        h += (np.abs(u) - self.size[j, parents]) @ self.size_slopes[s, parents, j]
        return location, self.log_scale[s, j] + floored(h)


@dataclass(frozen=True, eq=False)
class FlexibleParameters(ParameterDistribution):
    """p(location, scale, noise density | A, D) of flexible mechanisms.

    Attributes
    ----------
    model
        The data, in the scale of the fit.
    scaling
        From the units of the table to that scale; None where they are the same.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.exponential(size=(500, 2))
    >>> x[:, 1] += 2 * x[:, 0]
    >>> model = FlexibleMechanism.from_values(x, ("a", "b"), locations=("linear",))
    >>> distribution = FlexibleParameters(model, scaling=None)
    >>> drawn = distribution.parameters(np.array([[0, 1], [0, 0]], dtype=np.uint8), n=50, seed=0)
    >>> round(float(drawn["weights"][:, 0, 1].mean()), 1)
    2.0
    """

    model: FlexibleMechanism
    scaling: Scaling | None

    def parameters(
        self, graph: UInt8[np.ndarray, "m m"], n: int, seed: int
    ) -> dict[str, np.ndarray]:
        """`weights`, `intercept`, `hidden`, `log_scale`, `scale_slopes`, `size_slopes`, `beta`.

        As in `FlexibleEquations`, with draws on the first axis.
        """
        drawn = self.draw(np.repeat(graph[None], n, axis=0), seed)
        names = ("weights", "intercept", "hidden", "log_scale", "scale_slopes", "size_slopes")
        return {name: getattr(drawn, name) for name in (*names, "beta")}

    def draw(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> FlexibleEquations:
        """Draw structure and θ of every chosen node; a family is fitted once for all graphs."""
        return self._equations(
            graphs,
            nodes,
            lambda family, members, j, count: draw_family(family, members, j, count, seed),
        )

    def centre(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> FlexibleEquations:
        """The most probable structure of every node, with θ at its mode."""
        return self._equations(
            graphs,
            nodes,
            lambda family, members, _, count: central_family(family, len(members), count),
        )

    def _equations(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        nodes: Bool[np.ndarray, "S m"] | None,
        choose: Callable[[Family, np.ndarray, int, int], FamilyDraws],
    ) -> FlexibleEquations:
        """The equations for parameters as `choose` gives them for a family, so many times."""
        model, shape = self.model, graphs.shape[:2]
        weights, slopes, size_slopes = (np.zeros(graphs.shape) for _ in range(3))
        intercept, log_scale = np.full((2, *shape), np.nan)
        widest = len(model.thresholds) + len(SINGLE_THRESHOLDS) * int(graphs.sum(axis=1).max())
        hidden = np.zeros((*shape, widest))
        beta = np.zeros((*shape, COEFFICIENTS))
        draws, targets = np.nonzero(np.ones(shape, dtype=bool) if nodes is None else nodes)
        parents = graphs[draws, :, targets].astype(bool)
        means, spreads, sizes = model.scale_moments()

        def work(pairs: np.ndarray) -> None:
            s, j = draws[pairs], int(targets[pairs[0]])
            members = np.flatnonzero(parents[pairs[0]])
            drawn = choose(model.family(j, members), members, j, len(s))
            weights[s[:, None], members, j] = drawn.weights[:, :-1]
            intercept[s, j] = drawn.weights[:, -1]
            hidden[s, j, : drawn.hidden.shape[1]] = drawn.hidden
            slopes[s[:, None], members, j], size_slopes[s[:, None], members, j] = (
                drawn.slopes,
                drawn.size_slopes,
            )
            log_scale[s, j] = drawn.log_scale
            beta[s, j] = drawn.beta

        on_all_cores(work, by_parent_set(targets, parents))
        centre, spread = means, spreads
        if self.scaling is not None:
            hidden *= self.scaling.scale[:, None]
            centre = self.scaling.centre + means * self.scaling.scale
            spread = spreads * self.scaling.scale
        weights, intercept, sd = in_table_units(weights, intercept, np.exp(log_scale), self.scaling)
        return FlexibleEquations(
            graphs,
            weights,
            intercept,
            hidden,
            np.log(sd),
            slopes,
            size_slopes,
            beta,
            model,
            centre,
            spread,
            sizes,
            self.scaling,
        )


@dataclass(frozen=True, eq=False)
class FamilyDraws:
    """Parameters of one family, c times: weights with the intercept last, as in `Regression`."""

    weights: Float[np.ndarray, "c inputs"]
    hidden: Float[np.ndarray, "c units"]
    log_scale: Float[np.ndarray, " c"]
    slopes: Float[np.ndarray, "c l"]
    size_slopes: Float[np.ndarray, "c l"]
    beta: Float[np.ndarray, "c K"]


def draw_family(
    family: Family, parents: Int[np.ndarray, " l"], node: int, count: int, seed: int
) -> FamilyDraws:
    """Draw the structure of a family by its share, and its parameters around the mode."""
    choice, normal = family_generator(seed, node, parents).spawn(2)
    chosen = choice.choice(len(family.structures), size=count, p=family.shares)
    return _assemble(
        family, len(parents), chosen, lambda structure, c: draw_parameters(structure, c, normal)
    )


def central_family(family: Family, size: int, count: int) -> FamilyDraws:
    """The most probable structure of a family with so many parents, at its mode."""
    chosen = np.full(count, family.shares.argmax())
    return _assemble(
        family, size, chosen, lambda structure, c: np.repeat(structure.fit.theta[None], c, axis=0)
    )


def _assemble(
    family: Family,
    size: int,
    chosen: Int[np.ndarray, " c"],
    parameters: Callable[[Structure, int], Float[np.ndarray, "c d"]],
) -> FamilyDraws:
    """Parameters of chosen structures, by what they belong to."""
    count = len(chosen)
    rotations = [each.rotation for each in family.structures if each.rotation is not None]
    widest = len(rotations[0]) if rotations else 0
    weights, hidden = np.zeros((count, size + 1)), np.zeros((count, widest))
    log_scale = np.zeros(count)
    slopes, size_slopes = np.zeros((2, count, size))
    beta = np.zeros((count, COEFFICIENTS))
    for index in np.unique(chosen):
        at, structure = np.flatnonzero(chosen == index), family.structures[index]
        theta = parameters(structure, len(at))
        q = size + 1 + _hidden_size(structure, size)
        weights[at] = theta[:, : size + 1]
        if structure.linear_part is not None and structure.rotation is not None:
            hidden[at] = theta[:, size + 1 : q] @ structure.rotation.T
            weights[at] -= hidden[at] @ structure.linear_part.T
        log_scale[at] = theta[:, q]
        if structure.varying:
            slopes[at] = theta[:, q + 1 : q + 1 + size]
            size_slopes[at] = theta[:, q + 1 + size : q + 1 + 2 * size]
        if structure.tail:
            beta[at] = theta[:, -COEFFICIENTS:]
    return FamilyDraws(weights, hidden, log_scale, slopes, size_slopes, beta)


def _hidden_size(structure: Structure, size: int) -> int:
    """How many hidden weights a structure has."""
    others = size + 2 + 2 * size * structure.varying + COEFFICIENTS * (structure.tail > 0)
    return len(structure.fit.theta) - others


def draw_parameters(
    structure: Structure, count: int, generator: np.random.Generator
) -> Float[np.ndarray, "c d"]:
    """θ ~ N(mode, H⁻¹), moved towards the mode where the tails of its density are too heavy."""
    mode, factor = structure.fit.theta, structure.fit.factor
    noise = generator.standard_normal((len(mode), count))
    away = solve_triangular(factor, noise, lower=True, trans=1, check_finite=False).T
    if structure.tail:
        beta = mode[-COEFFICIENTS:]
        least = np.minimum(_VARIANCE, 0.9 * np.array(TiltedDensity(beta).decays))
        for row in away:
            while not _proper(beta + row[-COEFFICIENTS:], least):
                row *= 0.5
    return mode + away


def _proper(beta: Float[np.ndarray, " K"], least: Float[np.ndarray, " 2"]) -> bool:
    """Whether both tails fall at least so fast."""
    return bool((np.array(TiltedDensity(beta).decays) >= least).all())
