"""What an intervention would do, averaged over graphs and over parameters.

The total effect on y of moving x from x₀ to x₀ + δ, given a graph A and parameters θ, is

    τ(A, θ) = E[y | do(x = x₀ + δ), A, θ] − E[y | do(x = x₀), A, θ].

Linear equations give it in closed form, δ [(I − W)⁻¹]_xy; others by following the same simulated
units through both interventions. It is exactly 0 where no directed path leads from x to y. With
several draws of θ for every graph, its variance splits into

    Var τ = Var_A E[τ | A] + E_A Var[τ | A],

what the graph leaves open and what the parameters leave open. All values are in the units of the
`Dataset`: those of the table, or of the transformed columns where it transforms them.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, UInt8
from scipy.special import ndtri
from scipy.stats import qmc

from svidag.data.columns import closest, show
from svidag.graph import ancestors, distinct
from svidag.mechanisms.law import Equations, MechanismLaw
from svidag.mechanisms.linear_law import LinearEquations
from svidag.posterior import Posterior

PER_GRAPH = 2
"""Draws of the parameters for each graph: the fewest that tell the two spreads apart."""

UNITS = 32
"""Simulated units per round, graph and draw of the parameters; a power of 2."""

ROUNDS = 16
"""Rounds of simulation at most."""

PRECISION = 0.2
"""Rounds end once simulation contributes less than this share of the standard deviation."""

_STREAM = 103  # keeps the noise apart from the draws of graphs and parameters


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """The posterior of a total effect: what a change of the cause does to the effect's mean.

    Attributes
    ----------
    cause, effect
        Their names.
    change, at
        The cause goes from `at` to `at` + `change`.
    holding
        Variables held at a value meanwhile: what is left is the effect along other paths.
    level
        The posterior probability of `interval`.
    draws
        τ(A, θ), a row for each graph and a column for each draw of its parameters.
    structure
        For each graph, which of the different ways it leads from cause to effect; 0 for no path.
        Graphs that differ elsewhere only share their number.
    simulation_error
        Standard deviation that simulation adds to a draw; 0 in closed form.
    transforms
        The transforms that cause and effect went through in the `Dataset`, if any.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=200, seed=1)
    >>> posterior = svidag.exact.posterior(example.data)
    >>> effect = posterior.effect("x1", "x2", n=200)
    >>> total = effect.probability_zero + effect.probability_positive + effect.probability_negative
    >>> round(total, 9)
    1.0
    """

    cause: str
    effect: str
    change: float
    at: float
    holding: Mapping[str, float]
    level: float
    draws: Float[np.ndarray, "n k"] = field(repr=False)
    structure: Int[np.ndarray, " n"] = field(repr=False)
    simulation_error: float
    transforms: tuple[str | None, str | None] = (None, None)

    @property
    def mean(self) -> float:
        """The posterior mean, over graphs with and without a path."""
        return float(self.draws.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """The central interval that holds `level` of the draws."""
        tail = (1 - self.level) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail])
        return float(low), float(high)

    @property
    def probability_zero(self) -> float:
        """P(no directed path leads from cause to effect): the effect is 0 by structure."""
        return float((self.structure == 0).mean())

    @property
    def probability_positive(self) -> float:
        """P(the effect is above 0)."""
        return float((self.draws > 0).mean())

    @property
    def probability_negative(self) -> float:
        """P(the effect is below 0)."""
        return float((self.draws < 0).mean())

    @property
    def structural_sd(self) -> float:
        """√ Var_A E[τ | A]: the spread that remains if every graph's parameters were known."""
        return float(np.sqrt(self._variances[0]))

    @property
    def parametric_sd(self) -> float:
        """√ E_A Var[τ | A]: the spread that remains if the graph were known."""
        return float(np.sqrt(self._variances[1]))

    @property
    def sd(self) -> float:
        """The standard deviation of the effect, from both."""
        return float(np.hypot(self.structural_sd, self.parametric_sd))

    @property
    def standard_error(self) -> float:
        """Monte Carlo error of the mean, from the number of draws and from simulation."""
        return float(self.draws.mean(axis=1).std(ddof=1) / np.sqrt(len(self.draws)))

    @cached_property
    def _variances(self) -> tuple[float, float]:
        """Between structures and within them, each freed from what chance adds to it.

        The means of structures scatter by s²/n_g even if they are equal, and simulation adds to s².
        """
        groups = [self.draws[self.structure == g].ravel() for g in np.unique(self.structure)]
        count = np.array([len(group) for group in groups])
        share = count / count.sum()
        means = np.array([group.mean() for group in groups])
        scatter = np.array([group.var(ddof=1) for group in groups])
        between = share @ (means - self.mean) ** 2 - (share - share**2) @ (scatter / count)
        within = share @ scatter - self.simulation_error**2
        return max(float(between), 0.0), max(float(within), 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Names and figures as plain values, without the draws."""
        return {
            "cause": self.cause,
            "effect": self.effect,
            "change": self.change,
            "at": self.at,
            "holding": dict(self.holding),
            "transforms": list(self.transforms),
            "mean": self.mean,
            "interval": list(self.interval),
            "level": self.level,
            "probability_zero": self.probability_zero,
            "probability_positive": self.probability_positive,
            "probability_negative": self.probability_negative,
            "sd": self.sd,
            "structural_sd": self.structural_sd,
            "parametric_sd": self.parametric_sd,
            "standard_error": self.standard_error,
            "simulation_error": self.simulation_error,
        }

    def __repr__(self) -> str:
        low, high = self.interval
        cause, effect = (
            name if transform is None else f"{transform}({name})"
            for name, transform in zip((self.cause, self.effect), self.transforms, strict=True)
        )
        held = "".join(f", {name} = {value:g}" for name, value in self.holding.items())
        return (
            f"Effect on {effect} of {cause} = {self.at + self.change:g} "
            f"instead of {self.at:g}{held}\n"
            f"  mean {self.mean:.4g} ± {self.standard_error:.1g}; "
            f"{100 * self.level:g} % between {low:.4g} and {high:.4g}\n"
            f"  no path {self.probability_zero:.3f}, above 0 {self.probability_positive:.3f}, "
            f"below 0 {self.probability_negative:.3f}\n"
            f"  sd {self.sd:.3g}: {self.structural_sd:.3g} from the graph, "
            f"{self.parametric_sd:.3g} from the parameters"
        )


class Involved(NamedTuple):
    """Nodes that matter to the effect variable, and those of them that the cause moves."""

    relevant: Bool[np.ndarray, "S m"]
    moved: Bool[np.ndarray, "S m"]


@dataclass(frozen=True, eq=False)
class Question:
    """Which effect is meant, by column: `fixed` is NaN where nothing is set from outside."""

    cause: int
    effect: int
    change: float
    fixed: Float[np.ndarray, " m"]

    def paths(self, graphs: UInt8[np.ndarray, "S m m"]) -> Bool[np.ndarray, "S m"]:
        """Whether a path leads to the effect from each node, past all that is set from outside."""
        return self._reach(graphs)[:, :, self.effect]

    def involved(self, graphs: UInt8[np.ndarray, "S m m"]) -> Involved:
        """The nodes whose equations decide about the effect."""
        reach = self._reach(graphs)
        relevant = reach[:, :, self.effect] & np.isnan(self.fixed)
        relevant[:, self.effect] = True
        return Involved(relevant, relevant & reach[:, self.cause])

    def structures(self, graphs: UInt8[np.ndarray, "S m m"], linear: bool) -> Int[np.ndarray, " S"]:
        """Number the graphs by the equations that decide about the effect.

        The parents of relevant nodes; of linear ones, those that the cause moves suffice.
        """
        relevant, moved = self.involved(graphs)
        deciding = moved if linear else relevant
        return distinct(graphs * deciding[:, None].astype(np.uint8))[1]

    def _reach(self, graphs: UInt8[np.ndarray, "S m m"]) -> Bool[np.ndarray, "S m m"]:
        return ancestors(graphs * np.isnan(self.fixed).astype(np.uint8))


def total_effect(
    posterior: Posterior,
    cause: Any,
    effect: Any,
    *,
    change: Any = 1.0,
    at: Any = None,
    holding: Any = None,
    n: Any = 1000,
    seed: int = 0,
    level: Any = 0.95,
) -> Effect:
    """The posterior of a total effect; `Posterior.effect` is the door to it and says the rest.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.two_node("linear", n=500)
    >>> posterior = svidag.exact.posterior(example.data)
    >>> effect = total_effect(posterior, "x1", "x2", n=100)
    >>> effect.draws.shape
    (100, 2)
    """
    law = _mechanisms(posterior)
    if n == 1:
        raise ValueError("n must be at least 2: one graph says nothing about the spread")
    names = posterior.names
    x, y = _index(names, cause, "cause"), _index(names, effect, "effect")
    if x == y:
        raise ValueError(f"cause and effect are the same variable, {show(cause)}")
    _require_evidence(posterior, y)
    level = _number(level, "level")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1; got {level:g}")
    change = _number(change, "change")
    if change == 0:
        raise ValueError("change must not be 0: by how much is the cause moved?")
    held = _held(names, {} if holding is None else holding, cause, effect)
    start = _usual(posterior, x) if at is None else _number(at, "at")
    fixed = _fixed(names, {**held, cause: start})
    draws, structure, error = _draws(posterior, law, Question(x, y, change, fixed), n, seed)
    transforms = (None, None)
    if posterior.problem is not None:
        applied = posterior.problem.data.transforms
        transforms = applied[x], applied[y]
    return Effect(cause, effect, change, start, held, level, draws, structure, error, transforms)


def interventional(posterior: Posterior, do: Any, n: Any = 1000, seed: int = 0) -> pd.DataFrame:
    """Rows from the interventional distribution; `Posterior.do` is the door to it.

    Examples
    --------
    >>> import svidag
    >>> posterior = svidag.exact.posterior(svidag.datasets.two_node("linear", n=500).data)
    >>> rows = interventional(posterior, {"x1": 2.0}, n=3)
    >>> rows["x1"].tolist()
    [2.0, 2.0, 2.0]
    """
    law = _mechanisms(posterior)
    if not isinstance(do, Mapping):
        raise ValueError(f"do must map variables to values; got {show(do)}")
    if not do:
        raise ValueError("do is empty; name at least one variable and its value")
    fixed = _fixed(posterior.names, do)
    graphs = posterior.sample(n, seed)
    noise = np.random.default_rng([seed, _STREAM]).standard_normal((len(graphs), 1, len(fixed)))
    free = np.repeat(np.isnan(fixed)[None], len(graphs), axis=0)
    rows = law.draw(graphs, seed).propagate(np.broadcast_to(fixed, noise.shape), noise, free)
    return pd.DataFrame(rows[:, 0], columns=pd.Index(posterior.names, dtype=object))


def _draws(
    posterior: Posterior, law: MechanismLaw, question: Question, n: Any, seed: int
) -> tuple[Float[np.ndarray, "n k"], Int[np.ndarray, " n"], float]:
    """τ of every graph and draw of its parameters, the structures, and the simulation's error."""
    graphs = posterior.sample(n, seed)
    reached = question.paths(graphs)[:, question.cause]
    draws, structure = np.zeros((len(graphs), PER_GRAPH)), np.zeros(len(graphs), dtype=np.int64)
    if not reached.any():
        return draws, structure, 0.0
    equations = law.draw(np.repeat(graphs[reached], PER_GRAPH, axis=0), seed)
    linear = isinstance(equations, LinearEquations)
    structure[reached] = 1 + question.structures(graphs[reached], linear)
    if linear:
        free = np.repeat(np.isnan(question.fixed)[None], len(equations.graphs), axis=0)
        slopes = equations.total_effects(free)[:, question.cause, question.effect]
        found, variance = question.change * slopes, 0.0
    else:
        found, variance = _simulated(equations, question, seed, float(reached.mean()))
    draws[reached] = found.reshape(-1, PER_GRAPH)
    return draws, structure, float(np.sqrt(variance * reached.mean()))


def _simulated(
    equations: Equations, question: Question, seed: int, share: float
) -> tuple[Float[np.ndarray, " S"], float]:
    """τ of each draw, and the mean variance that simulation gives it.

    Rounds of units are independent, so their scatter says how precise their average is.
    """
    nodes = question.involved(equations.graphs)
    rounds = [_round(equations, question, nodes, [seed, _STREAM, k]) for k in range(2)]
    while True:
        found = np.mean(rounds, axis=0)
        variance = float((np.var(rounds, axis=0, ddof=1) / len(rounds)).mean())
        # Draws without a path are 0 and belong to the spread as well.
        spread = share * (found**2).mean() - (share * found.mean()) ** 2
        if variance <= PRECISION**2 * spread or len(rounds) == ROUNDS:
            return found, variance
        rounds.append(_round(equations, question, nodes, [seed, _STREAM, len(rounds)]))


def _round(
    equations: Equations, question: Question, nodes: Involved, key: list[int]
) -> Float[np.ndarray, " S"]:
    """The mean difference between the same units under both interventions."""
    noise = even_noise(nodes.relevant.shape, key)
    before = np.broadcast_to(question.fixed, noise.shape)
    before = equations.propagate(before, noise, nodes.relevant)
    after = before.copy()
    after[..., question.cause] += question.change
    after = equations.propagate(after, noise, nodes.moved)
    return (after - before)[..., question.effect].mean(axis=1)


def even_noise(shape: tuple[int, int], key: list[int]) -> Float[np.ndarray, "S R m"]:
    """Standard normals that fill space evenly over units, shifted at random for every draw.

    Examples
    --------
    >>> even_noise((3, 2), [0]).shape
    (3, 32, 2)
    """
    points = qmc.Sobol(shape[1], scramble=False).random(UNITS)
    shift = np.random.default_rng(key).random((shape[0], 1, shape[1]))
    tiny = np.finfo(float).eps
    return ndtri(np.clip((points + shift) % 1.0, tiny, 1 - tiny))


def _mechanisms(posterior: Posterior) -> MechanismLaw:
    if posterior.mechanisms is None:
        raise ValueError(
            "this posterior is over graphs alone: it has no mechanisms, so it cannot say what an "
            "intervention would do"
        )
    return posterior.mechanisms


def _index(names: tuple[str, ...], name: Any, what: str) -> int:
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"{what} is {show(name)}, which is no variable{closest(str(name), names)}")
    return names.index(name)


def _number(value: Any, what: str) -> float:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    if not real or not np.isfinite(float(value)):
        raise ValueError(f"{what} must be a finite number; got {show(value)}")
    return float(value)


def _fixed(names: tuple[str, ...], values: Mapping[Any, Any]) -> Float[np.ndarray, " m"]:
    """The values by column, NaN elsewhere."""
    fixed = np.full(len(names), np.nan)
    for name, value in values.items():
        fixed[_index(names, name, "a variable in do")] = _number(value, f"do of {show(name)}")
    return fixed


def _held(names: tuple[str, ...], holding: Any, cause: str, effect: str) -> dict[str, float]:
    if not isinstance(holding, Mapping):
        raise ValueError(f"holding must map variables to values; got {show(holding)}")
    for role, name in (("cause", cause), ("effect", effect)):
        if name in holding:
            raise ValueError(f"holding fixes {show(name)}, which is the {role}")
    for name in holding:
        _index(names, name, "a variable in holding")
    return {name: _number(value, f"holding {show(name)}") for name, value in holding.items()}


def _require_evidence(posterior: Posterior, y: int) -> None:
    if posterior.problem is not None and posterior.problem.data.intervened[:, y].all():
        raise ValueError(
            f"effect {show(posterior.names[y])} was set from outside in every row, so that the "
            "data say nothing about what moves it"
        )


def _usual(posterior: Posterior, j: int) -> float:
    """The mean of a variable over the rows where it was not set from outside."""
    problem = posterior.problem
    if problem is None:
        raise ValueError("at must be given: this posterior does not carry its data")
    if problem.scaling is not None:
        return float(problem.scaling.centre[j])
    free = ~problem.data.intervened[:, j]
    return float(problem.data.values[free if free.any() else slice(None), j].mean())
