"""How probable further rows of tables with discrete columns are, averaged over parameters.

*Tables of probabilities* have the closed form of the Dirichlet distribution.

*Regressions for each kind* fit one of two directions better by their form alone, which is no
evidence (:mod:`svidag.mechanisms.order_averaged`). So the density of a family is, as in the fit,
the change of a function of sets: with Y the further rows and D the table,

    p̂(Y_j | Y_P, D) = [p̃(Y_{P∪j}, D_{P∪j}) / p̃(D_{P∪j})] / [p̃(Y_P, D_P) / p̃(D_P)],

    p̃(Y_S, D_S) = (1/|S|) Σ_{j ∈ S} p̃(Y_{S∖j}, D_{S∖j}) p(D_j | D_{S∖j}) p(Y_j | Y_{S∖j}, D),

with the last factor a mean over drawn parameters. What setting a variable tells then rests on who
moves with it, and not on forms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from svidag.mechanisms.discrete import configurations
from svidag.mechanisms.discrete_parameters import DiscreteParameters
from svidag.mechanisms.local import pack_sets, unpack_sets
from svidag.mechanisms.mixed_parameters import MixedParameters, log_densities
from svidag.mechanisms.mixed_screen import ScreenedMixed
from svidag.mechanisms.nodewise import NodeEquation
from svidag.mechanisms.order_averaged import OrderAveraged
from svidag.run.cores import on_all_cores
from svidag.run.streams import Stream, child_seed

DRAWS = 12
"""Draws of the parameters of a regression."""
MOST_PARENTS = 4
"""Parents of a family whose subsets are all looked at; of more only those that explain it."""

Family = tuple[int, int]
"""A variable and its causes as a bit mask."""


def table_predictive(
    distribution: DiscreteParameters,
    node: int,
    parents: Int[np.ndarray, " l"],
    rows: Float[np.ndarray, "B R m"],
) -> Float[np.ndarray, " B"]:
    """The predictive probability of R further rows under BDeu, in closed form.

    With α_ck the concentration of level k given the configuration c after the table, and n_ck how
    often it occurs in the further rows, Π_c Γ(α_c)/Γ(α_c + n_c) Π_k Γ(α_ck + n_ck)/Γ(α_ck).
    """
    alpha = distribution.concentration(node, parents)
    q, r = alpha.shape
    codes = rows.reshape(-1, rows.shape[2]).astype(np.int64)
    place = configurations(codes[:, parents].T, distribution.model.sizes[parents])
    place = np.repeat(np.arange(len(rows)), rows.shape[1]) * q + place
    total = np.zeros(len(rows))
    cells, count = np.unique(place * r + codes[:, node], return_counts=True)
    own = alpha.ravel()[cells % (q * r)]
    np.add.at(total, cells // (q * r), gammaln(own + count) - gammaln(own))
    cells, count = np.unique(place, return_counts=True)
    own = alpha.sum(axis=1)[cells % q]
    np.add.at(total, cells // q, gammaln(own) - gammaln(own + count))
    return total


@dataclass(eq=False)
class SetDensities:
    """log p̃(Y_S, D_S) − log p̃(D_S) of sets of variables, for the rows of one experiment at a time.

    Attributes
    ----------
    distribution
        The regressions.
    seed
        For draws of their parameters.
    """

    distribution: MixedParameters
    seed: int
    _rows: Float[np.ndarray, "B R m"] | None = field(default=None, init=False)
    _known: dict[int, tuple[np.ndarray, float]] = field(default_factory=dict, init=False)
    _evidence: dict[Family, float] = field(default_factory=dict, init=False)
    _drawn: dict[Family, list[NodeEquation]] = field(default_factory=dict, init=False)

    def family(
        self, node: int, parents: Int[np.ndarray, " l"], rows: Float[np.ndarray, "B R m"]
    ) -> Float[np.ndarray, " B"]:
        """log p̂(Y_j | Y_P, D)."""
        if rows is not self._rows:
            self._rows, self._known = rows, {0: (np.zeros(len(rows)), 0.0)}
        kept = np.zeros(self.distribution.model.m, dtype=bool)
        kept[parents] = True
        if len(parents) > MOST_PARENTS:
            screen = ScreenedMixed(OrderAveraged(self.distribution.model))
            kept = screen.explaining(np.array([node]), kept[None])[0]
        before = pack_sets(kept[None])[0]
        self._fill(before | 1 << node)
        (with_rows, alone), (rows_before, alone_before) = (
            self._known[one] for one in (before | 1 << node, before)
        )
        return (with_rows - alone) - (rows_before - alone_before)

    def _fill(self, whole: int) -> None:
        """Every subset of this set, the small ones first."""
        parts, part = [], whole
        while part:
            if part not in self._known:
                parts.append(part)
            part = (part - 1) & whole
        asked = [(part, j) for part in parts for j in self._last(part)]
        self._weigh([(j, part & ~(1 << j)) for part, j in asked])
        found: dict[tuple[int, int], tuple[np.ndarray, float]] = {}

        def work(one: tuple[int, int]) -> None:
            part, j = one
            found[one] = self._regression(j, part & ~(1 << j))

        on_all_cores(work, asked)
        for part in sorted(parts, key=lambda part: (part.bit_count(), part)):
            last = self._last(part)
            before = [self._known[part & ~(1 << j)] for j in last]
            rows = [b[0] + found[part, j][0] for b, j in zip(before, last, strict=True)]
            alone = [b[1] + found[part, j][1] for b, j in zip(before, last, strict=True)]
            less = np.log(len(last))
            self._known[part] = (
                np.logaddexp.reduce(rows) - less,
                float(np.logaddexp.reduce(alone)) - less,
            )

    def _last(self, part: int) -> list[int]:
        """Who may come last: anyone; among Gaussian variables, whose order is all the same, one."""
        members = [j for j in range(part.bit_length()) if part >> j & 1]
        return members if self._discrete[members].any() else members[:1]

    @cached_property
    def _discrete(self) -> Bool[np.ndarray, " m"]:
        return self.distribution.model.data.discrete

    def _regression(self, node: int, given: int) -> tuple[Float[np.ndarray, " B"], float]:
        """log p(D_j | D_S) p(Y_j | Y_S, D) of every experiment, and the first factor alone."""
        assert self._rows is not None
        if (node, given) not in self._drawn:
            parents = np.flatnonzero(unpack_sets([given], self.distribution.model.m)[0])
            seed = child_seed(self.seed, Stream.EXPERIMENT_PARAMETERS, node, *map(int, parents))
            self._drawn[node, given] = self.distribution.drawn(node, parents, DRAWS, seed)
        evidence = self._evidence[node, given]
        flat = self._rows.reshape(-1, self._rows.shape[2])
        terms = log_densities(self._drawn[node, given], flat)
        terms = terms.reshape(DRAWS, *self._rows.shape[:2]).sum(axis=2)
        return evidence + np.logaddexp.reduce(terms) - np.log(DRAWS), evidence

    def _weigh(self, families: list[Family]) -> None:
        """log p(D_j | D_S) of families for which it is not known."""
        unknown = [one for one in families if one not in self._evidence]
        if unknown:
            model, nodes = self.distribution.model, np.array([node for node, _ in unknown])
            sets = unpack_sets([given for _, given in unknown], model.m)
            scores = model.family_scores(nodes, sets).tolist()
            self._evidence.update(zip(unknown, scores, strict=True))
