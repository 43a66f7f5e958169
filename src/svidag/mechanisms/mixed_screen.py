"""Mechanisms for columns of any kind that are fitted only where Gaussian models see every parent.

The regression of a discrete variable takes milliseconds, and most parent sets that a search asks
about have members that explain nothing. Such a member i of S is found by a Gaussian regression of
the variable's features on those of its parents (:mod:`svidag.mechanisms.mixed`): i explains nothing
if the likelihood ratio N log(|V_{S∖i}|/|V_S|), with V the covariance that is left, could well be
chance. Those members are taken out one at a time, the least first, which leaves T ⊆ S, and

    f_j(S) = f_j(T) + g_j(S) − g_j(T),

with g the Gaussian evidence: what parents that explain nothing cost is what they cost in it. Where
j and S are continuous g is the evidence itself, and nothing is approximated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import chi2

from svidag.kernels.elimination import eliminate_families
from svidag.mechanisms.local import charge_idle_parents, tabulate_families
from svidag.mechanisms.mixed import MixedMechanism
from svidag.mechanisms.order_averaged import OrderAveraged
from svidag.run.cores import on_all_cores

MOST_PARENTS = 5
"""Parents of a set that is fitted, at most: the strongest; all orders of them are averaged."""
CHANCE = 0.3
"""Probability of a likelihood ratio by chance from which it could well be chance."""


@dataclass(frozen=True, eq=False)
class ScreenedMixed:
    """The evidence of every node given any parent set; sets are fitted without idle parents.

    Attributes
    ----------
    averaged
        The evidence of parent sets.

    Examples
    --------
    >>> import pandas as pd
    >>> from svidag.data import Dataset
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((300, 2))
    >>> frame = pd.DataFrame({"x": x[:, 0], "y": x[:, 1], "b": x[:, 0] > rng.logistic(size=300)})
    >>> screened = ScreenedMixed(OrderAveraged(MixedMechanism(Dataset.from_any(frame))))
    >>> screened.explaining(np.array([2]), np.array([[True, True, False]])).tolist()
    [[True, False, False]]
    """

    averaged: OrderAveraged

    @property
    def m(self) -> int:
        """The number of variables."""
        return self.averaged.m

    @property
    def mechanism(self) -> MixedMechanism:
        """The regressions."""
        return self.averaged.mechanism

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node j and a parent set S."""
        kept, gaussian = parents.copy(), self.mechanism.gaussian
        discrete = self.mechanism.data.discrete
        regressed = discrete[nodes] | (parents & discrete).any(axis=1)
        kept[regressed] = self.explaining(nodes[regressed], parents[regressed])
        scores = np.empty(len(nodes))
        scores[~regressed] = gaussian.family_scores(nodes[~regressed], parents[~regressed])
        scores[regressed] = self.averaged.family_scores(nodes[regressed], kept[regressed])
        charge_idle_parents(scores, gaussian, nodes, parents, kept)
        return scores

    def score_tables(self) -> Float[np.ndarray, "m subsets"]:
        """f_j(S) for every node and every subset S, indexed by bit mask; −∞ where j ∈ S."""
        return tabulate_families(self.family_scores, self.m)

    def explaining(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Bool[np.ndarray, "B m"]:
        """T of every family: the parents of j without those that explain nothing."""
        features, linear = self.mechanism.features, self.mechanism.gaussian.linear
        kept, first, count = parents.copy(), features.first_output, features.output_count
        several = np.bincount(features.owner) > 1
        simple = np.flatnonzero(~(parents & several).any(axis=1))  # one feature for each parent
        by_chance = np.array([_by_chance(int(k)) for k in count])[nodes[simple]]
        least = by_chance / linear.rows[linear.group[first[nodes[simple]]]]
        found = np.empty((len(simple), self.m), dtype=bool)
        families = parents[simple], nodes[simple], first, count, least, MOST_PARENTS, found
        eliminate_families(linear.scatter, linear.group, *families)
        kept[simple] = found

        def work(b: int) -> None:
            kept[b] = self._explaining(int(nodes[b]), parents[b])

        others = np.flatnonzero((parents & several).any(axis=1))
        on_all_cores(work, others.tolist())
        return kept

    def _explaining(self, j: int, parents: Bool[np.ndarray, " m"]) -> Bool[np.ndarray, " m"]:
        kept = parents.copy()
        while kept.any():
            members = np.flatnonzero(kept)
            excess = self._excess(j, members)
            least = int(excess.argmin())
            if excess[least] >= 1.0 and len(members) <= MOST_PARENTS:
                break
            kept[members[least]] = False
        return kept

    def _excess(self, j: int, parents: Int[np.ndarray, " l"]) -> Float[np.ndarray, " l"]:
        """The likelihood ratio of each parent over what could be chance, in the better version."""
        versions = self.mechanism.versions(parents)
        return np.max([self._ratios(j, parents, members) for members in versions], axis=0)

    def _ratios(
        self, j: int, parents: Int[np.ndarray, " l"], members: Int[np.ndarray, " F"]
    ) -> Float[np.ndarray, " l"]:
        """The same in one version.

        With P the inverse of the products of features, β the coefficients and V what is left,
        taking the block i out leaves V + β_iᵀ (P_ii)⁻¹ β_i, whose determinant is that of V times
        |P_ii + β_i V⁻¹ β_iᵀ| / |P_ii|.
        """
        linear, features = self.mechanism.gaussian.linear, self.mechanism.features
        outputs = features.outputs(j)
        g = linear.group[outputs[0]]
        R = linear.scatter[g]
        inverse = np.linalg.inv(R[members[:, None], members])
        across = R[members[:, None], outputs]
        beta = inverse @ across
        left = R[outputs[:, None], outputs] - across.T @ beta
        more = beta @ np.linalg.solve(left, beta.T)
        owner = features.owner[members]
        ratios = np.empty(len(parents))
        for k, parent in enumerate(parents):
            at = np.flatnonzero(owner == parent)
            own = inverse[at[:, None], at]
            gained = np.linalg.slogdet(own + more[at[:, None], at])[1] - np.linalg.slogdet(own)[1]
            ratios[k] = float(linear.rows[g]) * gained / _by_chance(len(at) * len(outputs))
        return ratios


@cache
def _by_chance(freedom: int) -> float:
    return float(chi2.isf(CHANCE, freedom))
