"""Evidence of columns of several kinds that no form of a regression can direct.

Regressions of variables of different kinds are not symmetric: a logit of b given x and a shift of
x given b fit the same two columns differently, and with enough rows that would decide which of them
is the cause, though no form is right to that precision. So the joint density of a set of variables
is averaged over the orders in which they could be regressed on each other,

    p̃(x_S) = (1/|S|!) Σ_orders Π_j p(x_j | those before j),    f_j(P) = log p̃(x_{P∪j}) − log p̃(x_P).

Given S, the last variable of the order is uniform, which sums all orders subset by subset:

    p̃(x_S) = (1/|S|) Σ_{j ∈ S} p̃(x_{S∖j}) p(x_j | x_{S∖j}).

f_j(P) is the change of a function of sets, so that all members of an equivalence class have the
same evidence: independences direct arrows, forms do not. Of continuous columns alone p is BGe, for
which every order gives the same, and f_j is BGe too.

Where variables were set from outside, f_j is over the rows in which j was not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.data import row_groups
from svidag.mechanisms.local import (
    pack_sets,
    require_no_self_loops,
    tabulate_families,
    unpack_sets,
)
from svidag.mechanisms.mixed import MixedMechanism


@dataclass(eq=False)
class JointEvidence:
    """log p̃(x_S) of sets of variables, each computed once.

    Attributes
    ----------
    mechanism
        The regressions, of rows in which nothing counts as set from outside.
    """

    mechanism: MixedMechanism
    _known: dict[int, float] = field(default_factory=lambda: {0: 0.0}, init=False, repr=False)

    def of(self, sets: Iterable[int]) -> list[float]:
        """log p̃ of sets by their bit masks; all regressions that are missing are fitted at once."""
        sets = list(sets)
        missing = sorted(
            {part for whole in sets if whole not in self._known for part in self._unknown(whole)},
            key=lambda part: (part.bit_count(), part),
        )
        last = [self._last(part) for part in missing]
        given = [part & ~(1 << j) for part, nodes in zip(missing, last, strict=True) for j in nodes]
        if given:
            nodes = np.array([j for nodes in last for j in nodes])
            parents = unpack_sets(given, self.mechanism.m)
            scores = self.mechanism.family_scores(nodes, parents).tolist()
            at = 0
            for part, nodes in zip(missing, last, strict=True):
                end = at + len(nodes)
                terms = [self._known[given[k]] + scores[k] for k in range(at, end)]
                self._known[part] = _log_mean(terms)
                at = end
        return [self._known[whole] for whole in sets]

    def _last(self, part: int) -> list[int]:
        """Who may come last: anyone; among Gaussian variables, whose order is all the same, one."""
        members = [j for j in range(part.bit_length()) if part >> j & 1]
        return members if part & self._discrete else members[:1]

    @cached_property
    def _discrete(self) -> int:
        return pack_sets(self.mechanism.data.discrete[None])[0]

    def _unknown(self, whole: int) -> Iterable[int]:
        """Subsets that are not known yet, the set itself among them."""
        part = whole
        while part:
            if part not in self._known:
                yield part
            part = (part - 1) & whole


@dataclass(frozen=True, eq=False)
class OrderAveraged:
    """f_j(P) of the module's docstring.

    Attributes
    ----------
    mechanism
        The regressions.

    Examples
    --------
    >>> import pandas as pd
    >>> from svidag.data import Dataset
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"x": rng.exponential(size=90), "b": ["yes", "no", "no"] * 30})
    >>> scores = OrderAveraged(MixedMechanism(Dataset.from_any(frame)))
    >>> graphs = np.array([[[0, 0], [1, 0]], [[0, 1], [0, 0]]], dtype=bool)
    >>> one, other = (scores.family_scores(np.arange(2), graph).sum() for graph in graphs)
    >>> bool(abs(one - other) < 1e-9)
    True
    """

    mechanism: MixedMechanism

    @property
    def m(self) -> int:
        """The number of variables."""
        return self.mechanism.m

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) for each pair of a node j and a parent set S."""
        require_no_self_loops(nodes, parents)
        joints, group = self._joints
        scores = np.empty(len(nodes))
        for g, joint in enumerate(joints):
            pairs = np.flatnonzero(group[nodes] == g)
            without = pack_sets(parents[pairs])
            whole = [mask | 1 << int(j) for mask, j in zip(without, nodes[pairs], strict=True)]
            found = joint.of([*whole, *without])
            scores[pairs] = np.subtract(found[: len(pairs)], found[len(pairs) :])
        return scores

    def score_tables(self) -> Float[np.ndarray, "m subsets"]:
        """f_j(S) for every node and every subset S, indexed by bit mask; −∞ where j ∈ S."""
        return tabulate_families(self.family_scores, self.m)

    @cached_property
    def _joints(self) -> tuple[list[JointEvidence], Int[np.ndarray, " m"]]:
        """One for each group of nodes that were left alone in the same rows."""
        masks, group = row_groups(self.mechanism.data.intervened)
        return [JointEvidence(self.mechanism.of_rows(mask)) for mask in masks.T], group


def _log_mean(terms: list[float]) -> float:
    """log of the mean of e^t."""
    highest = max(terms)
    return highest + math.log(sum(math.exp(term - highest) for term in terms) / len(terms))
