"""Tables with columns of any kind: each variable is regressed on features of its causes.

- A continuous variable, and log(1 + x) of a count: linear Gaussian, with the prior of BGe for every
  feature. Where all causes are continuous this is BGe itself.
- A binary or categorical variable: logits; an ordinal one: cumulative logits
  (:mod:`svidag.mechanisms.discrete_regression`).

Counts are Gaussian on the scale of log(1 + x) rather than Poisson: counts vary more than Poisson's
in nearly every table, and a distribution that is too narrow is sure of effects that are not there.

Where ordinal causes have more than two levels, log p(x_j | x_S) averages two regressions: on their
scores, and on all contrasts between their levels (:mod:`svidag.mechanisms.mixed_features`).

All are densities, or probabilities, of the values of j alone, so that they compare between parent
sets. Which of two variables of different kinds is the cause would rest on the form of these
regressions alone; :mod:`svidag.mechanisms.order_averaged` makes the evidence of graphs of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.data import Dataset, Kind
from svidag.mechanisms.discrete import configurations
from svidag.mechanisms.discrete_regression import LaplaceFit, fit_categories, fit_ordered
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import require_no_self_loops
from svidag.mechanisms.mixed_features import MixedFeatures
from svidag.run.cores import on_all_cores

MOST_GROUPS = 2.0**40
"""Configurations of discrete causes that can be numbered."""


@dataclass(frozen=True, eq=False)
class GaussianFeatures:
    """Gaussian evidences of features: exact for continuous variables, a stand-in for others.

    A discrete variable is represented by its score, or by its contrasts one after another, as if
    they were Gaussian (the *degenerate Gaussian* score of Andrews, Ramsey and Cooper 2019).

    Attributes
    ----------
    features
        The features.
    intervened
        Where values were set from outside.
    weight
        How many times every row counts.
    factors
        What each feature is multiplied by, if not by 1: the less, the narrower is the prior of its
        effect.
    """

    features: MixedFeatures
    intervened: Bool[np.ndarray, "N m"]
    weight: float = 1.0
    prior_scale: float | None = None
    factors: Float[np.ndarray, " E"] | None = None

    def scaled(self, column: int, factor: float) -> GaussianFeatures:
        """The same with the features of a column multiplied by a factor."""
        return replace(self, factors=np.where(self.features.owner == column, factor, 1.0))

    @cached_property
    def linear(self) -> LinearGaussian:
        """BGe of all features, with the prior that it has for continuous columns alone."""
        features = self.features
        intervened = self.intervened[:, features.owner]
        values = features.values if self.factors is None else features.values * self.factors
        return LinearGaussian.from_values(
            values, intervened, prior_scale=self.prior_scale, weight=self.weight
        )

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S): one regression, or the average of two."""
        owner, plain = self.features.owner, self.features.plain
        every = parents[:, owner]
        scores = self._regression(nodes, every & plain)
        twice = np.flatnonzero((every & ~plain).any(axis=1))
        if len(twice):
            full = self._regression(nodes[twice], every[twice])
            scores[twice] = average(scores[twice], full)
        return scores

    def _regression(
        self, nodes: Int[np.ndarray, " B"], inputs: Bool[np.ndarray, "B E"]
    ) -> Float[np.ndarray, " B"]:
        """Σ_t BGe of each output of the node given the inputs and the outputs before it."""
        first, count = self.features.first_output[nodes], self.features.output_count[nodes]
        scores = self.linear.family_scores(first, inputs)
        for t in range(1, count.max(initial=1)):
            more = np.flatnonzero(count > t)
            given = inputs[more]
            given[np.arange(len(more))[:, None], first[more, None] + np.arange(t)] = True
            scores[more] += self.linear.family_scores(first[more] + t, given)
        return scores


def average(
    first: Float[np.ndarray, " B"], second: Float[np.ndarray, " B"]
) -> Float[np.ndarray, " B"]:
    """log(½ e^first + ½ e^second)."""
    return np.logaddexp(first, second) - np.log(2.0)


@dataclass(frozen=True, eq=False)
class MixedMechanism:
    """The evidence of every node given any parent set, for columns of any kind.

    Attributes
    ----------
    data
        The table, in the scale of the fit.
    weight
        How many times every row counts.
    rows
        The rows that count at all; None for all.
    prior_scale
        The prior scale of BGe for continuous columns; None for its default.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal(200)
    >>> frame = pd.DataFrame({"x": x, "b": x + rng.logistic(size=200) > 0})
    >>> model = MixedMechanism(Dataset.from_any(frame))
    >>> without, given = model.family_scores(np.ones(2, int), np.array([[0, 0], [1, 0]], bool))
    >>> bool(given > without)
    True
    """

    data: Dataset
    weight: float = 1.0
    rows: Bool[np.ndarray, " N"] | None = None
    prior_scale: float | None = None

    def of_rows(self, rows: Bool[np.ndarray, " N"]) -> MixedMechanism:
        """Regressions of some rows, in which nothing counts as set from outside."""
        natural = replace(self.data, intervened=np.zeros(self.data.intervened.shape, dtype=bool))
        return replace(self, data=natural, rows=None if rows.all() else rows)

    @property
    def m(self) -> int:
        """The number of variables."""
        return self.data.m

    @cached_property
    def features(self) -> MixedFeatures:
        """Features of every column."""
        return MixedFeatures(self.data, self.rows)

    @cached_property
    def values(self) -> Float[np.ndarray, "n m"]:
        """The rows that count."""
        return self.data.values if self.rows is None else self.data.values[self.rows]

    @cached_property
    def intervened(self) -> Bool[np.ndarray, "n m"]:
        """Where they were set from outside."""
        return self.data.intervened if self.rows is None else self.data.intervened[self.rows]

    @cached_property
    def gaussian(self) -> GaussianFeatures:
        """Gaussian evidences."""
        return GaussianFeatures(self.features, self.intervened, self.weight, self.prior_scale)

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node j and a parent set S."""
        require_no_self_loops(nodes, parents)
        scores = np.empty(len(nodes))
        discrete = self.data.discrete[nodes]
        gaussian = np.flatnonzero(~discrete)
        if len(gaussian):
            scores[gaussian] = self.gaussian.family_scores(nodes[gaussian], parents[gaussian])

        def work(b: int) -> None:
            fits = self.regressions(int(nodes[b]), np.flatnonzero(parents[b]))
            found = np.array([fit.log_evidence for fit in fits])
            scores[b] = np.logaddexp.reduce(found) - np.log(len(found))

        on_all_cores(work, np.flatnonzero(discrete).tolist())
        return scores

    def versions(self, parents: Int[np.ndarray, " l"]) -> list[Int[np.ndarray, " F"]]:
        """The features of each regression: the plain ones, and all where these are more."""
        plain, full = (self.features.members(parents, full=full) for full in (False, True))
        return [plain] if len(plain) == len(full) else [plain, full]

    def regressions(self, j: int, parents: Int[np.ndarray, " l"]) -> list[LaplaceFit]:
        """The regressions of a discrete variable on these causes, one for each version."""
        rows = np.flatnonzero(~self.intervened[:, j])
        size, level = len(self.data.levels[j]), self.values[rows, j].astype(np.int64)
        first, group = self._groups(rows, parents)
        counts = np.bincount(group * size + level, minlength=len(first) * size)
        counts = self.weight * counts.reshape(len(first), size)
        fits = []
        for members in self.versions(parents):
            x = self.features.values[first[:, None], members]
            if self.data.kinds[j] is Kind.ORDINAL and size > 2:
                row, seen = np.nonzero(counts)
                fits.append(fit_ordered(x, row, seen, counts[row, seen], size))
            else:
                fits.append(fit_categories(x, counts))
        return fits

    def _groups(
        self, rows: Int[np.ndarray, " n"], parents: Int[np.ndarray, " l"]
    ) -> tuple[Int[np.ndarray, " u"], Int[np.ndarray, " n"]]:
        """A row of each group that has the same causes, and the group of each row."""
        sizes = np.array([len(self.data.levels[i]) for i in parents], dtype=np.int64)
        if not self.data.discrete[parents].all() or np.prod(sizes.astype(float)) > MOST_GROUPS:
            return rows, np.arange(len(rows))
        codes = self.values[rows[:, None], parents].astype(np.int64).T
        _, first, group = np.unique(
            configurations(codes, sizes), return_index=True, return_inverse=True
        )
        return rows[first], group
