"""The expected information from setting a variable in further rows, by nested Monte Carlo.

For an experiment that sets v, with outcome Y, the information about the graph is

    I(A; Y | D) = E_Y KL(p(A | Y, D) ‖ p(A | D)),    p(A | Y, D) ∝ p(A | D) Π_{j≠v} p(Y_j | Y_P, D),

in bits. Outcomes are simulated from drawn graphs and parameters; the inner sum is over drawn
graphs, so that no more than the logarithm of their number can be seen. All variables share graphs,
parameters and noise, which makes them comparable. About an effect τ(A, θ), the draws (A, θ) are
grouped: no path, and `GROUPS` groups of equal size by the value of τ; parameters that do not enter
the effect are averaged over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, UInt8
from scipy.special import logsumexp

from svidag.data.columns import show
from svidag.effects.arguments import index, mechanisms, number, usual_value
from svidag.effects.densities import Families, log_densities
from svidag.effects.estimation import simulate
from svidag.effects.question import Involved, Question
from svidag.graph import distinct
from svidag.mechanisms.equations import ParameterDistribution
from svidag.mechanisms.linear_parameters import LinearEquations
from svidag.posterior import GraphDistribution, Posterior
from svidag.posterior.mixture import MixtureParameters
from svidag.posterior.text import counted
from svidag.run.streams import Stream, child_seed, generator

GRAPHS = 400
"""Drawn graphs behind the inner sum about the graph."""
DRAWS = 1000
"""Drawn graphs with parameters behind the inner sum about an effect."""
GROUPS = 8
"""Groups of equal size by which the values of an effect are told apart."""
QUANTILES = (0.1, 0.9)
"""Where the usual values of an experiment lie among those observed."""
NEAR_THE_LIMIT = 0.8
"""Share of the visible information from which a figure may be too small."""


@dataclass(frozen=True, eq=False, repr=False)
class Experiments:
    """Expected information from setting each variable, the most informative first.

    Attributes
    ----------
    names
        The variables.
    values
        The values each is set to, in turn over the rows.
    bits, standard_error
        Expected information, and its Monte Carlo error.
    observing, observing_error
        The same for as many rows in which nothing is set.
    n_rows
        Further rows.
    about
        The effect that it is about; None for the graph.
    uncertainty
        Bits that are unknown now.
    limit
        Bits that could be seen at most, by the number of draws.
    """

    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    bits: Float[np.ndarray, " m"]
    standard_error: Float[np.ndarray, " m"]
    observing: float
    observing_error: float
    n_rows: int
    about: tuple[str, str] | None
    uncertainty: float
    limit: float

    @property
    def title(self) -> str:
        """What the bits are about."""
        what = "the graph" if self.about is None else f"the effect of {' on '.join(self.about)}"
        return f"Expected information about {what} from {counted(self.n_rows, 'further row')}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What to compare the bits with, and their limits."""
        found = [
            f"Unknown now: {self.uncertainty:.2f} bits. The same number of rows with nothing set: "
            f"{self.observing:.3f} ± {self.observing_error:.3f} bits."
        ]
        if self.bits.max() > NEAR_THE_LIMIT * self.limit:
            found.append(
                f"No more than {self.limit:.1f} bits can be seen with so many draws and groups: "
                "the largest figures are too small, and their order is what counts."
            )
        return tuple(found)

    def rows(self) -> Iterator[tuple[str, str, float, float]]:
        """Name, values as text, bits and standard error of each, best first."""
        for name, values, bits, error in zip(
            self.names, self.values, self.bits, self.standard_error, strict=True
        ):
            yield name, ", ".join(f"{value:.4g}" for value in values), float(bits), float(error)

    def to_frame(self) -> pd.DataFrame:
        """A row for each variable: its values, bits and their standard error."""
        return pd.DataFrame(
            self.rows(), columns=["variable", "set to", "bits", "standard error"]
        ).set_index("variable")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "about": None if self.about is None else list(self.about),
            "rows": self.n_rows,
            "uncertainty": self.uncertainty,
            "limit": self.limit,
            "observing": self.observing,
            "observing_error": self.observing_error,
            "experiments": [
                {"variable": n, "values": list(v), "bits": float(b), "standard_error": float(e)}
                for n, v, b, e in zip(
                    self.names, self.values, self.bits, self.standard_error, strict=True
                )
            ],
        }

    def __repr__(self) -> str:
        widest = max(map(len, self.names))
        lines = [
            f"  {name:{widest}}  {bits:.3f} ± {error:.3f} bits, set to {values}"
            for name, values, bits, error in self.rows()
        ]
        return "\n".join([self.title, *lines, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(float_format="{:.3f}".format)


def next_experiments(
    posterior: Posterior,
    rows: Any = 100,
    *,
    about: Any = None,
    values: Any = None,
    n: Any = 100,
    seed: int = 0,
) -> Experiments:
    """Rank variables by what setting them would tell; see `Posterior.next_experiments`.

    Examples
    --------
    >>> import svidag
    >>> posterior = svidag.exact.posterior(svidag.datasets.two_node("linear", n=500).data)
    >>> next_experiments(posterior, 20, n=20).n_rows
    20
    """
    mechanisms(posterior)
    count, experiments = _whole(rows, "rows", 1), _whole(n, "n", 2)
    levels = _levels(posterior, values, count)
    if about is None:
        design: _Design = _GraphDesign.of(posterior, seed)
    else:
        design = _EffectDesign.of(posterior, about, seed)
    outcomes = _Outcomes.of(posterior, experiments, count, seed)
    found = [design.bits(outcomes.simulate(j, level), j) for j, level in enumerate(levels)]
    observed = design.bits(outcomes.simulate(None, None), None)
    means = np.array([bits.mean() for bits in found])
    errors = np.array([_error(bits) for bits in found])
    best = np.argsort(-means, kind="stable")
    return Experiments(
        names=tuple(posterior.names[j] for j in best),
        values=tuple(tuple(dict.fromkeys(levels[j].tolist())) for j in best),
        bits=means[best],
        standard_error=errors[best],
        observing=float(observed.mean()),
        observing_error=_error(observed),
        n_rows=count,
        about=None if about is None else (about[0], about[1]),
        uncertainty=design.uncertainty,
        limit=design.limit,
    )


def _error(bits: Float[np.ndarray, " B"]) -> float:
    return float(bits.std(ddof=1) / np.sqrt(len(bits)))


def _whole(value: Any, what: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{what} must be a whole number from {least} on; got {show(value)}")
    return int(value)


def _levels(posterior: Posterior, values: Any, rows: int) -> list[Float[np.ndarray, " R"]]:
    """For each variable the value it is set to in each row."""
    given = {} if values is None else values
    if not isinstance(given, Mapping):
        raise ValueError(f"values must map variables to values; got {show(values)}")
    for name in given:
        index(posterior.names, name, "a variable in values")
    found = []
    for j, name in enumerate(posterior.names):
        if name in given:
            several = given[name] if isinstance(given[name], Sequence) else [given[name]]
            chosen = [number(value, f"values of {show(name)}") for value in several]
            if not chosen:
                raise ValueError(f"values of {show(name)} is empty")
        else:
            chosen = _usual_values(posterior, j)
        found.append(np.resize(np.array(chosen, dtype=float), rows))
    return found


def _usual_values(posterior: Posterior, j: int) -> list[float]:
    problem = posterior.problem
    if problem is None:
        raise ValueError("values must be given for every variable: this posterior has no data")
    column = problem.data.values[:, j]
    free = ~problem.data.intervened[:, j]
    column = column[free] if free.any() else column
    ends = np.quantile(column, QUANTILES, method="inverted_cdf")
    if problem.scaling is not None:
        ends = ends * problem.scaling.scale[j] + problem.scaling.centre[j]
    return [float(f"{end:.12g}") for end in ends]  # the way there and back leaves a trace


@dataclass(frozen=True, eq=False)
class _Fits:
    """The fits that parameters come from, one or those of a mixture, and drawn graphs of each."""

    parts: tuple[tuple[ParameterDistribution, UInt8[np.ndarray, "_ m m"]], ...]

    @classmethod
    def of(cls, posterior: Posterior, size: int, seed: int) -> _Fits:
        drawn = posterior.mechanisms
        assert drawn is not None
        if not isinstance(drawn, MixtureParameters):
            return cls(((drawn, posterior.sample(size, seed)),))
        rng = generator(seed, Stream.EXPERIMENT_CHOICES, 0)
        chosen = rng.choice(len(drawn.weights), size=size, p=drawn.weights)
        parts: list[tuple[ParameterDistribution, GraphDistribution]] = list(
            zip(drawn.components, drawn.graphs, strict=True)
        )
        found = []
        for c, (parameters, graphs) in enumerate(parts):
            count, own = int((chosen == c).sum()), child_seed(seed, Stream.EXPERIMENT_CHOICES, c)
            if count:
                found.append((parameters, graphs.sample(count, own)))
        return cls(tuple(found))


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """Units that go through every experiment: drawn graphs, parameters and noise."""

    parts: tuple[tuple[Any, Float[np.ndarray, "_ R m"]], ...]

    @classmethod
    def of(cls, posterior: Posterior, experiments: int, rows: int, seed: int) -> _Outcomes:
        own = child_seed(seed, Stream.EXPERIMENT_NOISE)
        fits = _Fits.of(posterior, experiments, own)
        rng, m = generator(seed, Stream.EXPERIMENT_NOISE, 1), len(posterior.names)
        return cls(
            tuple(
                (parameters.draw(graphs, own), rng.standard_normal((len(graphs), rows, m)))
                for parameters, graphs in fits.parts
            )
        )

    def simulate(
        self, target: int | None, level: Float[np.ndarray, " R"] | None
    ) -> Float[np.ndarray, "B R m"]:
        """What the units would show with one variable set."""
        found = []
        for equations, noise in self.parts:
            values = np.full(noise.shape, np.nan)
            free = np.ones((len(noise), noise.shape[2]), dtype=bool)
            if target is not None:
                values[:, :, target] = level
                free[:, target] = False
            found.append(equations.propagate(values, noise, free))
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class _Design:
    """Draws whose weights outcomes change, and the groups that matter."""

    group: Int[np.ndarray, " T"]
    families: tuple[tuple[Families, UInt8[np.ndarray, "_ m m"]], ...]

    @property
    def _share(self) -> Float[np.ndarray, " G"]:
        return np.bincount(self.group) / len(self.group)

    @property
    def uncertainty(self) -> float:
        share = self._share[self._share > 0]
        return float(-(share * np.log2(share)).sum())

    @property
    def limit(self) -> float:
        return float(np.log2(len(self.group)))

    def bits(
        self, outcomes: Float[np.ndarray, "B R m"], target: int | None
    ) -> Float[np.ndarray, " B"]:
        """KL of the groups' probabilities after each outcome from those before, in bits."""
        weights = self._log_weights(outcomes, target)
        groups = len(self._share)
        terms = np.full((groups, len(outcomes)), -np.inf)
        for g in range(groups):
            terms[g] = logsumexp(weights[:, self.group == g], axis=1)
        after = terms - logsumexp(terms, axis=0)
        ratio = after - np.log(self._share)[:, None]
        return (np.exp(after) * ratio).sum(axis=0) / np.log(2)

    def _log_weights(
        self, outcomes: Float[np.ndarray, "B R m"], target: int | None
    ) -> Float[np.ndarray, "B T"]:
        return np.concatenate(
            [self._averaged(f, graphs, outcomes, target) for f, graphs in self.families], axis=1
        )

    def _averaged(
        self,
        families: Families,
        graphs: UInt8[np.ndarray, "t m m"],
        outcomes: Float[np.ndarray, "B R m"],
        target: int | None,
        skip: Bool[np.ndarray, "t m"] | None = None,
    ) -> Float[np.ndarray, "B t"]:
        """Σ_j log p(Y_j | Y_P, D) over the nodes that are neither set nor skipped."""
        total = np.zeros((len(outcomes), len(graphs)))
        for j in range(graphs.shape[1]):
            if j == target:
                continue
            sets, which = np.unique(graphs[:, :, j], axis=0, return_inverse=True)
            which, wanted = which.reshape(-1), np.ones(len(graphs), dtype=bool)
            if skip is not None:
                wanted = ~skip[:, j]
            elif len(sets) == 1 and len(self.families) == 1:
                continue  # the same factor for every graph
            for k in np.unique(which[wanted]):
                term = families.log_predictive(j, np.flatnonzero(sets[k]), outcomes)
                total[:, wanted & (which == k)] += term[:, None]
        return total


@dataclass(frozen=True, eq=False)
class _GraphDesign(_Design):
    """Groups are graphs."""

    @classmethod
    def of(cls, posterior: Posterior, seed: int) -> _GraphDesign:
        fits = _Fits.of(posterior, GRAPHS, seed)
        everything = np.concatenate([graphs for _, graphs in fits.parts])
        families = tuple((Families(parameters, seed), graphs) for parameters, graphs in fits.parts)
        return cls(distinct(everything)[1], families)


@dataclass(frozen=True, eq=False)
class _EffectDesign(_Design):
    """Groups are values of an effect; its own parameters are drawn, others averaged over."""

    equations: tuple[Any, ...] = ()
    deciding: tuple[Bool[np.ndarray, "_ m"], ...] = ()

    @property
    def limit(self) -> float:
        return self.uncertainty

    @classmethod
    def of(cls, posterior: Posterior, about: Any, seed: int) -> _EffectDesign:
        if isinstance(about, str) or not isinstance(about, Sequence) or len(about) != 2:
            raise ValueError(f"about must be a pair (cause, effect); got {show(about)}")
        x = index(posterior.names, about[0], "cause")
        y = index(posterior.names, about[1], "effect")
        if x == y:
            raise ValueError(f"cause and effect are the same variable, {show(about[0])}")
        fixed = np.full(len(posterior.names), np.nan)
        fixed[x] = usual_value(posterior, x)
        question = Question(x, y, usual_change(posterior, about[0]), fixed)
        fits = _Fits.of(posterior, DRAWS, seed)
        values, equations, deciding = [], [], []
        for parameters, graphs in fits.parts:
            drawn = parameters.draw(graphs, seed)
            involved = question.involved(graphs)
            linear = isinstance(drawn, LinearEquations)
            nodes = (involved.moved if linear else involved.relevant) & involved.reached[:, None]
            values.append(_effects(drawn, question, involved, seed))
            equations.append(drawn)
            deciding.append(nodes)
        families = tuple((Families(parameters, seed), graphs) for parameters, graphs in fits.parts)
        group = _grouped(np.concatenate(values))
        return cls(group, families, tuple(equations), tuple(deciding))

    def _log_weights(
        self, outcomes: Float[np.ndarray, "B R m"], target: int | None
    ) -> Float[np.ndarray, "B T"]:
        found = []
        flat = outcomes.reshape(-1, outcomes.shape[2])
        for (families, graphs), equations, deciding in zip(
            self.families, self.equations, self.deciding, strict=True
        ):
            total = self._averaged(families, graphs, outcomes, target, deciding)
            for j in range(graphs.shape[1]):
                which = np.flatnonzero(deciding[:, j])
                if j != target and len(which):
                    own = log_densities(equations, np.full(len(which), j), flat, which)
                    total[:, which] += own.reshape(-1, *outcomes.shape[:2]).sum(axis=2).T
            found.append(total)
        return np.concatenate(found, axis=1)


def usual_change(posterior: Posterior, name: str) -> float:
    """One standard deviation of a variable, over the rows where it was not set from outside.

    Examples
    --------
    >>> import svidag
    >>> table = svidag.datasets.two_node("linear", n=500).data
    >>> posterior = svidag.exact.posterior(table)
    >>> bool(np.isclose(usual_change(posterior, "x1"), table["x1"].std(ddof=0)))
    True
    """
    j, problem = index(posterior.names, name, "cause"), posterior.problem
    if problem is None:
        raise ValueError("change must be given: this posterior does not carry its data")
    if problem.scaling is not None:
        return float(problem.scaling.scale[j])
    free = ~problem.data.intervened[:, j]
    return float(problem.data.values[free if free.any() else slice(None), j].std())


def _effects(
    equations: Any, question: Question, involved: Involved, seed: int
) -> Float[np.ndarray, " T"]:
    if isinstance(equations, LinearEquations):
        slopes = equations.responses(question.cause, involved.moved)
        return np.where(involved.reached, question.change * slopes[:, question.effect], 0.0)
    found, _ = simulate(equations, question, involved, seed, float(involved.reached.mean()))
    return np.where(involved.reached, found, 0.0)


def _grouped(effects: Float[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
    """0 for no effect, and groups of equal size for the others; no group is empty.

    Examples
    --------
    >>> _grouped(np.array([0.0, 0.0, 1.0, 2.0])).tolist()
    [0, 0, 1, 2]
    """
    group = np.zeros(len(effects), dtype=np.int64)
    moved = np.flatnonzero(effects != 0)
    rank = np.argsort(np.argsort(effects[moved], kind="stable"))
    group[moved] = 1 + rank * GROUPS // max(len(moved), 1)
    return np.unique(group, return_inverse=True)[1].reshape(-1)
