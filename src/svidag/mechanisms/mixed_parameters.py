"""The parameters of mechanisms for columns of any kind, drawn given a graph.

A version of the features is drawn by its share of the evidence. A Gaussian regression then has its
exact posterior, as in :mod:`svidag.mechanisms.linear_parameters`; one of a discrete variable the
normal distribution behind its Laplace evidence. Where thresholds of an ordinal variable are drawn
out of order, the draw is moved halfway towards the mode until they are in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from scipy.special import expit, log_ndtr, log_softmax, ndtr, ndtri

from svidag.data import Kind, Scaling
from svidag.mechanisms.discrete_regression import LaplaceFit, contrasts
from svidag.mechanisms.equations import ParameterDistribution, family_generator
from svidag.mechanisms.linear_parameters import regression
from svidag.mechanisms.mixed import MixedMechanism
from svidag.mechanisms.nodewise import (
    NodeEquation,
    NodewiseEquations,
    chosen_levels,
    draw_by_family,
    level_noise,
)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The causes of a variable, and which of their features a regression has."""

    model: MixedMechanism
    scaling: Scaling | None
    parents: Int[np.ndarray, " l"]
    members: Int[np.ndarray, " F"]

    def of(self, rows: Float[np.ndarray, "R m"]) -> Float[np.ndarray, "R F"]:
        """The features of rows in the units of the table."""
        scaled = rows if self.scaling is None else self.scaling.apply(rows)
        return self.model.features.of(scaled, self.parents)[:, self._chosen]

    @cached_property
    def _chosen(self) -> Bool[np.ndarray, " G"]:
        """Which of all features of the causes the regression has."""
        every = self.model.features.members(self.parents, full=True)
        return np.isin(every, self.members)


@dataclass(frozen=True, eq=False)
class LevelProbabilities(NodeEquation):
    """A discrete variable: logits of its levels, or thresholds between them."""

    node: int
    inputs: Inputs
    size: int
    ordered: bool
    theta: Float[np.ndarray, " d"]

    def probabilities(
        self, rows: Float[np.ndarray, "R m"], features: Float[np.ndarray, "R F"] | None = None
    ) -> Float[np.ndarray, "R K"]:
        """The probability of each level; `features` are those of the rows, where they are known."""
        x, k = self.inputs.of(rows) if features is None else features, self.size - 1
        if self.ordered:
            below = expit(self.theta[:k] - (x @ self.theta[k:])[:, None])
            ends = np.column_stack([np.zeros(len(x)), below, np.ones(len(x))])
            return np.maximum(np.diff(ends, axis=1), np.finfo(float).tiny)
        design = np.column_stack([np.ones(len(x)), x])
        return np.exp(
            log_softmax(design @ self.theta.reshape(k, -1).T @ contrasts(k + 1).T, axis=1)
        )

    def log_density(
        self, rows: Float[np.ndarray, "N m"], features: Float[np.ndarray, "N F"] | None = None
    ) -> Float[np.ndarray, " N"]:
        """The log probability of the level in each row."""
        level = rows[:, self.node].astype(np.int64)
        return np.log(self.probabilities(rows, features)[np.arange(len(rows)), level])

    def value(
        self, rows: Float[np.ndarray, "R m"], noise: Float[np.ndarray, " R"]
    ) -> Float[np.ndarray, " R"]:
        """A level for each row."""
        return chosen_levels(self.probabilities(rows), noise)

    def noise(
        self, rows: Float[np.ndarray, "R m"], uniform: Float[np.ndarray, " R"]
    ) -> Float[np.ndarray, " R"]:
        """Noise that picks the level of each row."""
        return level_noise(self.probabilities(rows), rows[:, self.node].astype(np.int64), uniform)


@dataclass(frozen=True, eq=False)
class GaussianRegression(NodeEquation):
    """A continuous variable, or log(1 + x) of a count, less `centre`, over `scale`."""

    node: int
    inputs: Inputs
    slopes: Float[np.ndarray, " F"]
    intercept: float
    sd: float
    centre: float
    scale: float
    count: bool

    def _mean(
        self, rows: Float[np.ndarray, "R m"], features: Float[np.ndarray, "R F"] | None = None
    ) -> Float[np.ndarray, " R"]:
        x = self.inputs.of(rows) if features is None else features
        return self.centre + self.scale * (self.intercept + x @ self.slopes)

    def log_density(
        self, rows: Float[np.ndarray, "N m"], features: Float[np.ndarray, "N F"] | None = None
    ) -> Float[np.ndarray, " N"]:
        """log p(x); of a count the probability of what `value` rounds to it."""
        x, mean, sd = rows[:, self.node], self._mean(rows, features), self.scale * self.sd
        if not self.count:
            return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi))
        low, high = self._ends(x, mean)
        flip = low + high > 0  # the nearer tail keeps its digits
        low, high = np.where(flip, -high, low), np.where(flip, -low, high)
        return log_ndtr(high) + np.log(
            -np.expm1(np.minimum(log_ndtr(low) - log_ndtr(high), -1e-15))
        )

    def _ends(
        self, x: Float[np.ndarray, " R"], mean: Float[np.ndarray, " R"]
    ) -> tuple[Float[np.ndarray, " R"], Float[np.ndarray, " R"]]:
        """The noise between which a count is what it is."""
        sd = self.scale * self.sd
        low = np.where(x > 0, (np.log(np.maximum(x, 0.5) + 0.5) - mean) / sd, -np.inf)
        return low, (np.log(x + 1.5) - mean) / sd

    def noise(
        self, rows: Float[np.ndarray, "R m"], uniform: Float[np.ndarray, " R"]
    ) -> Float[np.ndarray, " R"]:
        """The residual over the standard deviation; of a count a randomised one."""
        if not self.count:
            return (rows[:, self.node] - self._mean(rows)) / (self.scale * self.sd)
        low, high = (ndtr(end) for end in self._ends(rows[:, self.node], self._mean(rows)))
        tiny = np.finfo(float).eps
        return ndtri(np.clip(low + uniform * (high - low), tiny, 1 - tiny))

    def value(
        self, rows: Float[np.ndarray, "R m"], noise: Float[np.ndarray, " R"]
    ) -> Float[np.ndarray, " R"]:
        """The value; that of a count is a whole number from 0 on."""
        drawn = self._mean(rows) + self.scale * self.sd * noise
        return np.maximum(np.round(np.expm1(drawn)), 0.0) if self.count else drawn


@dataclass(frozen=True, eq=False)
class MixedParameters(ParameterDistribution):
    """p(regressions | A, D) for columns of any kind.

    Attributes
    ----------
    model
        The table, in the scale of the fit.
    scaling
        From the units of the table to that scale; None where they are the same.

    Examples
    --------
    >>> import pandas as pd
    >>> from svidag.data import Dataset
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"g": list("ab") * 250, "y": rng.standard_normal(500)})
    >>> frame["y"] += 2.0 * (frame["g"] == "b")
    >>> distribution = MixedParameters(MixedMechanism(Dataset.from_any(frame)), None)
    >>> graph = np.array([[[0, 1], [0, 0]]], np.uint8)
    >>> equation = distribution.centre(graph).equations[0, 1]
    >>> [int(round(v)) for v in equation.value(np.array([[0.0, 0.0], [1.0, 0.0]]), np.zeros(2))]
    [0, 2]
    """

    model: MixedMechanism
    scaling: Scaling | None

    def parameters(
        self, graph: UInt8[np.ndarray, "m m"], n: int, seed: int
    ) -> dict[str, np.ndarray]:
        """Refused: regressions on features of several kinds have no parameters in common."""
        raise ValueError(
            "parameters of mixed mechanisms have no common form; ask for effects, do or predict"
        )

    def draw(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        seed: int,
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> NodewiseEquations:
        """Draw version and parameters of every chosen node, once for each graph."""

        def equations(j: int, parents: Int[np.ndarray, " l"], count: int) -> list[NodeEquation]:
            return self._family(j, parents, count, family_generator(seed, j, parents))

        return draw_by_family(graphs, nodes, equations)

    def centre(
        self,
        graphs: UInt8[np.ndarray, "S m m"],
        nodes: Bool[np.ndarray, "S m"] | None = None,
    ) -> NodewiseEquations:
        """The more probable version of every node, at its mode."""
        return draw_by_family(graphs, nodes, lambda j, p, n: self._family(j, p, n, None))

    def drawn(
        self, j: int, parents: Int[np.ndarray, " l"], count: int, seed: int
    ) -> list[NodeEquation]:
        """So many draws of one variable's equation, given its causes."""
        return self._family(j, parents, count, family_generator(seed, j, parents))

    def _family(
        self,
        j: int,
        parents: Int[np.ndarray, " l"],
        count: int,
        rng: np.random.Generator | None,
    ) -> list[NodeEquation]:
        versions, levels = self.model.versions(parents), self.model.data.levels[j]
        fits = self.model.regressions(j, parents) if levels else []
        evidence = [fit.log_evidence for fit in fits] or [
            self._gaussian_evidence(j, members) for members in versions
        ]
        share = np.exp(np.array(evidence) - np.logaddexp.reduce(evidence))
        if rng is None:
            chosen = np.full(count, share.argmax())
        else:
            chosen = rng.choice(len(versions), size=count, p=share)
        inputs = [Inputs(self.model, self.scaling, parents, members) for members in versions]
        if levels:
            return [self._levels(j, inputs[v], fits[v], rng) for v in chosen]
        return [self._gaussian(j, inputs[v], rng) for v in chosen]

    def _levels(
        self, j: int, inputs: Inputs, fit: LaplaceFit, rng: np.random.Generator | None
    ) -> LevelProbabilities:
        size = len(self.model.data.levels[j])
        ordered = self.model.data.kinds[j] is Kind.ORDINAL and size > 2
        theta = fit.theta if rng is None else fit.draw(1, rng)[0]
        while ordered and (np.diff(theta[: size - 1]) <= 0).any():
            theta = (theta + fit.theta) / 2
        return LevelProbabilities(j, inputs, size, ordered, theta)

    def _gaussian_evidence(self, j: int, members: Int[np.ndarray, " F"]) -> float:
        linear, output = self.model.gaussian.linear, self.model.features.outputs(j)
        inputs = np.zeros((1, linear.m), dtype=bool)
        inputs[0, members] = True
        return float(linear.family_scores(output, inputs)[0])

    def _gaussian(
        self, j: int, inputs: Inputs, rng: np.random.Generator | None
    ) -> GaussianRegression:
        linear, members = self.model.gaussian.linear, inputs.members
        output = self.model.features.outputs(j)
        g = int(linear.group[output[0]])
        centre, root, left = (part[0] for part in regression(linear, output, members[None]))
        freedom = linear.rows[g] + linear.scale_weight - linear.m + len(members) + 1
        z, chi = np.zeros(len(members) + 1), float(freedom)
        if rng is not None:
            z, chi = rng.standard_normal(len(members) + 1), float(rng.chisquare(freedom))
        sd = float(np.sqrt(left / chi))
        slopes = centre + sd * (z[1:] @ root)
        mean, kappa = linear.mean[g], linear.rows[g] + linear.mean_weight
        intercept = float(mean[output[0]] - slopes @ mean[members] + sd * z[0] / np.sqrt(kappa))
        count = self.model.data.kinds[j] is Kind.COUNT
        middle, scale = 0.0, 1.0
        if count:
            middle, scale = self.model.features.count_scale(j)
        elif self.scaling is not None:
            middle, scale = float(self.scaling.centre[j]), float(self.scaling.scale[j])
        return GaussianRegression(j, inputs, slopes, intercept, sd, middle, scale, count)


def log_densities(
    drawn: list[NodeEquation], rows: Float[np.ndarray, "N m"]
) -> Float[np.ndarray, "count N"]:
    """log p(x_j | x_P, θ) by each draw of one variable's equation; features are computed once."""
    found, features = [], {}
    for equation in drawn:
        assert isinstance(equation, LevelProbabilities | GaussianRegression)
        if id(equation.inputs) not in features:
            features[id(equation.inputs)] = equation.inputs.of(rows)
        found.append(equation.log_density(rows, features[id(equation.inputs)]))
    return np.stack(found)
