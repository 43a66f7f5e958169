"""The expected information from setting a variable in further rows, by nested Monte Carlo.

For an experiment that sets v, with outcome Y, the information about the graph is

    I(A; Y | D) = E log p(A | Y, D)/p(A | D),    p(A | Y, D) ∝ p(A | D) Π_{j≠v} p(Y_j | Y_P, D),

in bits. Outcomes are simulated from drawn graphs and parameters; `information` has the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from svidag.data import Kind
from svidag.data.columns import show
from svidag.data.kinds import Level
from svidag.effects.arguments import index, levels_of, mechanisms, setting
from svidag.effects.information import Design, EffectDesign, GraphDesign
from svidag.effects.levels import moves, outcome_of
from svidag.effects.query import EffectQuery
from svidag.posterior import Posterior
from svidag.posterior.text import counted

QUANTILES = (0.1, 0.9)
"""Where the usual values of an experiment lie among those observed."""
NEAR_THE_LIMIT = 0.8
"""Share of the visible information from which an estimate may be too small."""


@dataclass(frozen=True, eq=False, repr=False)
class Experiments:
    """Expected information from setting each variable, the most informative first.

    Attributes
    ----------
    names
        The variables.
    values
        The values each is set to, in turn over the rows.
    transforms
        The transform that each went through in the `Dataset`, if any: values are in its units.
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
        Bits that could be seen at most, by the number of draws and groups.
    """

    names: tuple[str, ...]
    values: tuple[tuple[Level, ...], ...]
    transforms: tuple[str | None, ...]
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
                "the largest values are too small, and their order is what counts."
            )
        return tuple(found)

    def rows(self) -> Iterator[tuple[str, str, float, float]]:
        """Name, values as text, bits and standard error of each, best first."""
        for name, values, transform, bits, error in zip(
            self.names, self.values, self.transforms, self.bits, self.standard_error, strict=True
        ):
            listed = ", ".join(
                f"{value:.4g}" if isinstance(value, float) else str(value) for value in values
            )
            scale = "" if transform is None else f" ({transform})"
            yield name, listed + scale, float(bits), float(error)

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
        table = self.to_frame().to_html(float_format="{:.3f}".format)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<div><p>{escape(self.title)}</p>{table}{notes}</div>"


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
    design: Design
    if about is None:
        design = GraphDesign.of(posterior, seed)
    else:
        design = EffectDesign.of(posterior, _query(posterior, about), seed)
    outcomes = design.outcomes(experiments, count, seed)
    terms = [design.terms(outcomes.simulate(j, level), j) for j, level in enumerate(levels)]
    terms.append(design.terms(outcomes.simulate(None, None), None))
    *found, observed = design.bits(terms, outcomes.truth)
    means = np.array([bits.mean() for bits in found])
    errors = np.array([_error(bits) for bits in found])
    best = np.argsort(-means, kind="stable")
    return Experiments(
        names=tuple(posterior.names[j] for j in best),
        values=tuple(_labels(posterior, int(j), levels[j]) for j in best),
        transforms=tuple(_transforms(posterior)[j] for j in best),
        bits=means[best],
        standard_error=errors[best],
        observing=float(observed.mean()),
        observing_error=_error(observed),
        n_rows=count,
        about=None if about is None else (about[0], about[1]),
        uncertainty=design.uncertainty,
        limit=design.limit,
    )


def _query(posterior: Posterior, about: Any) -> EffectQuery:
    if isinstance(about, str) or not isinstance(about, Sequence) or len(about) != 2:
        raise ValueError(f"about must be a pair (cause, effect); got {show(about)}")
    x = index(posterior.names, about[0], "cause")
    y = index(posterior.names, about[1], "effect")
    if x == y:
        raise ValueError(f"cause and effect are the same variable, {show(about[0])}")
    discrete = bool(levels_of(posterior, x))
    start, change = moves(
        posterior, x, 1.0 if discrete else usual_change(posterior, about[0]), None, None
    )
    fixed = np.full(len(posterior.names), np.nan)
    fixed[x] = start
    return EffectQuery(x, y, change, fixed, outcome_of(posterior, y, None))


def _transforms(posterior: Posterior) -> tuple[str | None, ...]:
    problem = posterior.problem
    return (None,) * len(posterior.names) if problem is None else problem.data.transforms


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
            several = given[name]
            if isinstance(several, str) or not isinstance(several, Sequence):
                several = [several]
            what = f"values of {show(name)}"
            chosen = [setting(posterior, j, value, what) for value in several]
            if not chosen:
                raise ValueError(f"{what} is empty")
        else:
            chosen = _usual_values(posterior, j)
        found.append(np.resize(np.array(chosen, dtype=float), rows))
    return found


def _usual_values(posterior: Posterior, j: int) -> list[float]:
    """The values at 10 % and 90 %; all levels of a binary or categorical variable.

    Where both are the same, the next smaller or larger one that occurs is taken too.
    """
    problem = posterior.problem
    if problem is None:
        raise ValueError("values must be given for every variable: this posterior has no data")
    column = problem.data.values[:, j]
    free = ~problem.data.intervened[:, j]
    column = column[free] if free.any() else column
    kind = problem.data.kinds[j]
    if kind in (Kind.BINARY, Kind.CATEGORICAL):
        return [float(level) for level in range(len(problem.data.levels[j]))]
    low, high = np.quantile(column, QUANTILES, method="inverted_cdf")
    if low == high and kind is not Kind.CONTINUOUS:
        low = column[column < low].max(initial=column.min())
        high = column[column > high].min(initial=column.max())
    ends = np.array([low, high])
    if problem.scaling is not None:
        ends = ends * problem.scaling.scale[j] + problem.scaling.centre[j]
    return [float(f"{end:.12g}") for end in ends]  # the way there and back leaves a trace


def _labels(posterior: Posterior, j: int, values: Float[np.ndarray, " R"]) -> tuple[Level, ...]:
    """The values that a variable is set to, as the table has them."""
    levels = levels_of(posterior, j)
    different = dict.fromkeys(values.tolist())
    return tuple(levels[int(value)] if levels else value for value in different)


def usual_change(posterior: Posterior, name: str) -> float:
    """One standard deviation of a variable, over the rows where it was not set from outside.

    Of columns that are not continuous it is 1.

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
    if problem.data.kinds[j] is not Kind.CONTINUOUS:
        return 1.0
    if problem.scaling is not None:
        return float(problem.scaling.scale[j])
    free = ~problem.data.intervened[:, j]
    return float(problem.data.values[free if free.any() else slice(None), j].std())
