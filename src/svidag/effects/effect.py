"""The result of an effect query: draws of the effect and their summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from svidag.effects.levels import LevelWords
from svidag.posterior.text import Readable


@dataclass(frozen=True, eq=False, repr=False)
class Effect(Readable):
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
    cautions
        What makes the answer doubtful: values far outside the observed ones.
    words
        Where cause or effect is discrete: their levels. `change` and `at` are then codes.

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
    holding: Mapping[str, Any]
    level: float
    draws: Float[np.ndarray, "n k"] = field(repr=False)
    structure: Int[np.ndarray, " n"] = field(repr=False)
    simulation_error: float
    transforms: tuple[str | None, str | None] = (None, None)
    cautions: tuple[str, ...] = ()
    words: LevelWords | None = None

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

    @property
    def labels(self) -> tuple[str, str]:
        """Cause and effect as the fit sees them: ``log(PKA)`` for a transformed column."""
        cause, effect = (
            name if transform is None else f"{transform}({name})"
            for name, transform in zip((self.cause, self.effect), self.transforms, strict=True)
        )
        return cause, effect

    @property
    def ends(self) -> tuple[str, str]:
        """The values of the cause before and after, as text."""
        if self.words is not None and self.words.levels is not None:
            before, after = self.words.levels
            return str(before), str(after)
        return f"{self.at:.5g}", f"{self.at + self.change:.5g}"

    @property
    def quantity(self) -> str:
        """What changes: the mean of the effect, or the probability of one of its levels."""
        if self.words is None or self.words.outcome is None:
            return f"mean of {self.labels[1]}"
        return f"P({self.labels[1]} = {self.words.outcome})"

    @property
    def sentence(self) -> str:
        """The posterior mean of the effect in one sentence."""
        before, after = self.ends
        held = "".join(f", {name} = {value}" for name, value in self.holding.items())
        when = f"when {self.labels[0]} goes from {before} to {after}{held}"
        verb = "rises" if self.mean > 0 else "falls" if self.mean < 0 else "stays"
        if self.words is None or self.words.before is None:
            by = f" by {abs(self.mean):.3g}" if self.mean else ""
            return f"the {self.quantity} {verb}{by} {when}"
        first = self.words.before
        last = min(max(first + self.mean, 0.0), 1.0)
        if not self.mean:
            return f"{self.quantity} stays at {first:.2f} {when}"
        return f"{self.quantity} {verb} from {first:.2f} to {last:.2f} {when}"

    def to_dict(self) -> dict[str, Any]:
        """Names and summaries as plain values, without the draws."""
        words = {}
        if self.words is not None:
            words = {
                "levels": None if self.words.levels is None else list(self.words.levels),
                "outcome": self.words.outcome,
                "before": self.words.before,
                "sentence": self.sentence,
            }
        return {
            **words,
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
            "cautions": list(self.cautions),
        }

    def _text(self) -> tuple[str, list[str]]:
        low, high = self.interval
        cause, effect = self.labels
        held = "".join(
            f", {name} = {value:g}" if isinstance(value, float) else f", {name} = {value}"
            for name, value in self.holding.items()
        )
        title = f"Effect on {effect} of {cause} = {self.at + self.change:g} instead of {self.at:g}"
        if self.words is not None:
            title = (
                f"Effect on {self.quantity} of {cause} = {self.ends[1]} instead of {self.ends[0]}"
            )
        return title + held, [
            *([] if self.words is None else [self.sentence]),
            f"mean {self.mean:.4g} ± {self.standard_error:.1g}; "
            f"{100 * self.level:g} % between {low:.4g} and {high:.4g}",
            f"no path {self.probability_zero:.3f}, above 0 {self.probability_positive:.3f}, "
            f"below 0 {self.probability_negative:.3f}",
            f"sd {self.sd:.3g}: {self.structural_sd:.3g} from the graph, "
            f"{self.parametric_sd:.3g} from the parameters",
            *(f"caution: {sentence}" for sentence in self.cautions),
        ]
