"""Flexible mechanisms that are fitted only where two Gaussian models see every parent.

A family takes tens of milliseconds to fit, and most parent sets that a search asks about have
members that explain nothing. Such a member i of S is found by two Gaussian regressions, each blind
where the other sees:

- a linear one of the values as they are, which does not take heavy tails for effects;
- an additive one, piecewise linear in every cause (:mod:`svidag.mechanisms.gaussian_blocks`), of
  the values with Gaussian margins, which sees curved effects and is not hurt by outliers.

i explains nothing if the likelihood ratios N log(v_{S∖i}/v_S) of both, with v the variance that is
left, could well be chance. Those members are taken out one at a time, the least first, which leaves
T ⊆ S, and

    f_j(S) = f_j(T) + BGe_j(S) − BGe_j(T):

what parents that explain nothing cost is what they cost in BGe.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.data.transforms import rank_gaussian
from svidag.mechanisms.flexible import FlexibleMechanism
from svidag.mechanisms.gaussian_blocks import GaussianBlocks
from svidag.mechanisms.local import (
    CachedScores,
    FamilyScores,
    charge_idle_parents,
    tabulate_families,
)

CHANCE = (6.0, 10.0)
"""Likelihood ratios that could be chance: of a slope, and of a slope and its change at zero."""

_SETS_AT_ONCE = 20_000


@dataclass(frozen=True, eq=False)
class ScreenedFlexible:
    """The evidence of every node given any parent set; sets are fitted without idle parents.

    Attributes
    ----------
    mechanism
        The flexible mechanism.
    curved
        The additive model of the values with Gaussian margins.
    elsewhere
        The same mechanism where other workers fit its families; None to fit them here.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).laplace(size=(500, 3))
    >>> x[:, 1] += x[:, 0]
    >>> screened = ScreenedFlexible.of(FlexibleMechanism.from_values(x, ("a", "b", "c")))
    >>> parents = np.array([[True, False, True]])
    >>> screened.explaining(np.array([1]), parents).tolist()
    [[True, False, False]]
    """

    mechanism: FlexibleMechanism
    curved: GaussianBlocks
    elsewhere: FamilyScores | None = None

    @classmethod
    def of(cls, mechanism: FlexibleMechanism) -> ScreenedFlexible:
        """Lay out the stand-ins."""
        intervened = ~mechanism.kept[mechanism.group].T
        values = gaussian_margins(mechanism.columns.T)
        return cls(mechanism, GaussianBlocks.additive(values, intervened, mechanism.weight))

    @property
    def m(self) -> int:
        """The number of variables."""
        return self.mechanism.m

    @cached_property
    def fitted(self) -> CachedScores:
        """Scores of the families that were fitted."""
        return CachedScores(self.elsewhere or self.mechanism)

    @cached_property
    def _linear(self) -> GaussianBlocks:
        return GaussianBlocks.linear(self.mechanism.linear)

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node j and a parent set S."""
        kept, linear = self.explaining(nodes, parents), self.mechanism.linear
        scores = self.fitted.family_scores(nodes, kept)
        charge_idle_parents(scores, linear, nodes, parents, kept)
        return scores

    def score_tables(self) -> Float[np.ndarray, "m subsets"]:
        """f_j(S) for every node and every subset S, indexed by bit mask; −∞ where j ∈ S."""
        return tabulate_families(self.family_scores, self.m)

    def explaining(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Bool[np.ndarray, "B m"]:
        """T: the parents without those that explain nothing."""
        kept, active = parents.copy(), np.flatnonzero(parents.any(axis=1))
        while len(active):
            part = active[:_SETS_AT_ONCE]
            excess = np.maximum(
                likelihood_ratios(self._linear, nodes[part], kept[part]) / CHANCE[0],
                likelihood_ratios(self.curved, nodes[part], kept[part]) / CHANCE[1],
            )
            least = excess.argmin(axis=1)
            idle = excess[np.arange(len(part)), least] < 1.0
            kept[part[idle], least[idle]] = False
            further = part[idle]
            active = np.concatenate([further[kept[further].any(axis=1)], active[_SETS_AT_ONCE:]])
        return kept


def likelihood_ratios(
    blocks: GaussianBlocks, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
) -> Float[np.ndarray, "B m"]:
    """N log(v_{S∖i}/v_S) for every member i of S; ∞ for others.

    With β the coefficients and P the inverse of A over S, taking the block i out leaves
    β_iᵀ (P_ii)⁻¹ β_i more.
    """
    ratios, b = np.full(parents.shape, np.inf), blocks.size
    sizes, group = parents.sum(axis=1), blocks.group[nodes]
    for size in np.unique(sizes[sizes > 0]):
        pairs = np.flatnonzero(sizes == size)
        members = np.nonzero(parents[pairs])[1].reshape(len(pairs), size)
        features = (members[:, :, None] * b + np.arange(b)).reshape(len(pairs), size * b)
        g, j = group[pairs], nodes[pairs]
        inverse = np.linalg.inv(
            blocks.inner[g[:, None, None], features[:, :, None], features[:, None, :]]
        )
        across = blocks.outer[g[:, None], features, j[:, None]]
        beta = np.einsum("bkl,bl->bk", inverse, across)
        left = blocks.own[g, j] - (beta * across).sum(axis=1)
        tiles = inverse.reshape(len(pairs), size, b, size, b)[
            :, np.arange(size), :, np.arange(size)
        ]
        own = beta.reshape(len(pairs), size, b).swapaxes(0, 1)
        lost = np.einsum("sbk,sbk->bs", own, np.linalg.solve(tiles, own[..., None])[..., 0])
        more = np.log1p(np.maximum(lost, 0.0) / np.maximum(left, 1e-12)[:, None])
        ratios[pairs[:, None], members] = blocks.rows[g][:, None] * more
    return ratios


def gaussian_margins(values: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "N m"]:
    """Every column replaced by normal quantiles of its ranks."""
    return np.column_stack([rank_gaussian(np.ascontiguousarray(c), "") for c in values.T])
