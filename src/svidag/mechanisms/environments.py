"""Mechanisms that may change with the environment of a row, integrated out.

For every node and parent set the evidence is averaged over what the environment may do,

    f_j(S) = log Σ_k π_k exp f_j(S | k),

with k one of

- *unchanged* (π = ½): one mechanism for all rows;
- *shifted*: the contrasts c between environments are further parents. In linear mechanisms they
  move the mean; in networks the curve too; in flexible mechanisms mean, curve and scale, for
  these are averaged over both;
- *separate*, for linear mechanisms: every environment has slopes, mean and noise of its own, and
  f_j(S | k) is the sum of the evidences of the environments.

Contrasts are no nodes: they have no causes, and all of them are parents or none. With BGe over
variables and contrasts all three are in closed form.

In tables with discrete columns the environment itself is the one further parent, a categorical one:
with tables of probabilities every environment then has tables of its own, with regressions an
intercept or thresholds.

How large a shift is that does occur is not known beforehand. If it had the wide prior of a slope
alone, a mechanism whose shifts happen to be small would look unchanged by many nats, and that would
decide directions. So its evidence is averaged over contrasts that are multiplied by τ = 1, ¼ and
1/16, which makes the prior narrower; what that changes in other mechanisms is what it changes in
BGe,

    f_j(S | shifted) = f_j(S ∪ c) + log mean_τ exp(BGe_j(S ∪ τc) − BGe_j(S ∪ c)).

For regressions BGe is that of their features (:mod:`svidag.mechanisms.mixed`); tables of
probabilities have no size of a shift to average over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from svidag.mechanisms.discrete import DiscreteTables
from svidag.mechanisms.flexible import FlexibleMechanism
from svidag.mechanisms.flexible_screen import ScreenedFlexible
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import FamilyScores, tabulate_families
from svidag.mechanisms.mixed_screen import ScreenedMixed
from svidag.mechanisms.order_averaged import OrderAveraged
from svidag.mechanisms.subset_scores import score_subsets
from svidag.mechanisms.wide import WideNetwork

UNCHANGED = 0.5
"""Prior probability that a mechanism is the same in all environments; others share the rest."""

SIZES = (1.0, 1 / 4, 1 / 16)
"""Sizes τ of shifts, relative to slopes: equally likely beforehand."""

STRUCTURES = ("unchanged", "shifted", "separate")

Base = (
    LinearGaussian
    | WideNetwork
    | FlexibleMechanism
    | ScreenedFlexible
    | DiscreteTables
    | OrderAveraged
    | ScreenedMixed
)


@dataclass(frozen=True, eq=False)
class EnvironmentScores:
    """The evidence of every node given any parent set, averaged over changes of its mechanism.

    Attributes
    ----------
    base
        The mechanism over variables and then contrasts.
    contrasts
        The contrasts of every environment; its number where the environment itself is a column.
    shares
        The share of rows of every environment.
    sizes
        BGe over variables and contrasts times τ, for each of SIZES; none with discrete columns.
    parts
        Linear mechanisms of every environment by itself; none where others were asked for.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> batch = np.repeat([[-1.0], [1.0]], 200, axis=0)
    >>> x = rng.standard_normal((400, 2)) + 2 * batch * [1.0, 0.0]  # only the first one shifts
    >>> sizes = tuple(LinearGaussian.from_values(np.hstack([x, t * batch])) for t in SIZES)
    >>> parts = tuple(LinearGaussian.from_values(part) for part in (x[:200], x[200:]))
    >>> contrasts, shares = np.array([[-1.0], [1.0]]), np.full(2, 0.5)
    >>> scores = EnvironmentScores(sizes[0], contrasts, shares, sizes, parts)
    >>> found = scores.probabilities(np.array([0, 1]), np.zeros((2, 2), dtype=bool))
    >>> (found[:, 0] > 0.5).tolist()  # unchanged?
    [False, True]
    """

    base: Base
    contrasts: Float[np.ndarray, "E d"]
    shares: Float[np.ndarray, " E"]
    sizes: tuple[LinearGaussian, ...] = ()
    parts: tuple[LinearGaussian, ...] = ()

    @property
    def m(self) -> int:
        """The number of variables, without contrasts."""
        return self.base.m - self.contrasts.shape[1]

    @property
    def structures(self) -> tuple[str, ...]:
        """What the environment may do."""
        return STRUCTURES if self.parts else STRUCTURES[:2]

    @property
    def log_prior(self) -> Float[np.ndarray, " k"]:
        """log π_k."""
        others = len(self.structures) - 1
        return np.log([UNCHANGED, *[(1 - UNCHANGED) / others] * others])

    @cached_property
    def linear(self) -> EnvironmentScores:
        """The same with linear mechanisms."""
        return EnvironmentScores(self.sizes[0], self.contrasts, self.shares, self.sizes)

    def structure_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, "k B"]:
        """f_j(S | k) for each pair of a node j and a parent set S."""
        twice = np.concatenate([nodes, nodes])
        changed = np.repeat([False, True], len(nodes))[:, None]
        sets = np.hstack([np.vstack([parents, parents]), changed.repeat(self._d, axis=1)])
        found = [*self.base.family_scores(twice, sets).reshape(2, len(nodes))]
        with_contrasts = sets[len(nodes) :]
        if self._shift_sizes:
            linear = np.array([s.family_scores(nodes, with_contrasts) for s in self._shift_sizes])
            found[1] = found[1] + _mean(linear) - linear[0]
        if self.parts:
            found.append(
                np.sum([part.family_scores(nodes, parents) for part in self.parts], axis=0)
            )
        return np.array(found)

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node j and a parent set S."""
        return self._average(self.structure_scores(nodes, parents))

    def probabilities(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, "B k"]:
        """P(k | S, D) for each pair of a node and a parent set."""
        terms = self.structure_scores(nodes, parents) + self.log_prior[:, None]
        return np.exp(terms - logsumexp(terms, axis=0)).T

    def score_tables(self) -> Float[np.ndarray, "m subsets"]:
        """f_j(S) for every node and every subset S, indexed by bit mask; −∞ where j ∈ S."""
        if not isinstance(self.base, LinearGaussian):
            return tabulate_families(self.family_scores, self.m)
        codes = np.arange(2**self.m)
        table = np.full((self.m, len(codes)), -np.inf)
        for j in range(self.m):
            table[j, codes >> j & 1 == 0] = self._subset_scores(j)
        return table

    def _subset_scores(self, node: int) -> Float[np.ndarray, " subsets"]:
        """f_j of all subsets of the other variables, by elimination of the contrasts.

        With R' = R − R_c R_cc⁻¹ R_cᵀ, determinants over S ∪ c are |R_cc| |R'_SS|.
        """
        base, d = self.base, self._d
        assert isinstance(base, LinearGaussian)
        others = np.delete(np.arange(self.m), node)
        found = [base.subset_scores(node, others)]
        count, a = np.arange(len(others) + 1) + d, base.scale_weight - base.m
        shifted = np.empty((len(self.sizes), 1 << len(others)))
        for size, out in zip(self.sizes, shifted, strict=True):
            R, n = size.scatter[size.group[node]], size.rows[size.group[node]]
            across, inner = R[: self.m, self.m :], R[self.m :, self.m :]
            left = R[: self.m, : self.m] - across @ np.linalg.solve(inner, across.T)
            logdet = np.linalg.slogdet(inner)[1]
            score_subsets(
                left[np.ix_(others, others)],
                left[others, node],
                left[node, node],
                base.assemble(n, count, logdet, logdet),
                0.5 * (n + a + count + 1),
                out,
            )
        found.append(_mean(shifted))
        if self.parts:
            found.append(np.sum([part.subset_scores(node, others) for part in self.parts], axis=0))
        return self._average(np.array(found))

    def _average(self, scores: Float[np.ndarray, "k B"]) -> Float[np.ndarray, " B"]:
        return np.asarray(logsumexp(scores + self.log_prior[:, None], axis=0))

    @cached_property
    def _shift_sizes(self) -> tuple[FamilyScores, ...]:
        """Gaussian evidences with contrasts times τ."""
        if isinstance(self.base, OrderAveraged | ScreenedMixed):
            return tuple(self.base.mechanism.gaussian.scaled(self.m, size) for size in SIZES)
        return self.sizes

    @property
    def _d(self) -> int:
        return self.contrasts.shape[1]


def _mean(scores: Float[np.ndarray, "sizes B"]) -> Float[np.ndarray, " B"]:
    """log mean exp over the sizes."""
    return np.asarray(logsumexp(scores, axis=0)) - np.log(len(scores))
