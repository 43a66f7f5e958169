"""Tables of probabilities with the parameters integrated out: the BDeu score.

Node j has r_j levels, and its parents P have q = Π_{i ∈ P} r_i configurations. Each configuration
has its own distribution over the levels, Dirichlet with a/(q r_j) for every level, and

    f_j(P) = Σ_c [log Γ(a/q) − log Γ(a/q + n_c)
             + Σ_k log Γ(a/(q r_j) + n_ck) − log Γ(a/(q r_j))],

where n_ck rows have configuration c and level k, and n_c = Σ_k n_ck. All members of a Markov
equivalence class get the same total (Heckerman, Geiger and Chickering 1995). Rows in which node j
was set from outside are left out of f_j.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.data import Dataset
from svidag.kernels.counting import score_all_subsets, score_families
from svidag.mechanisms.local import require_no_self_loops
from svidag.run.cores import on_all_cores

SAMPLE_SIZE = 1.0
"""a, the equivalent sample size: prior rows, spread evenly over all configurations."""

_AT_ONCE = 200  # families of one task


@dataclass(frozen=True, eq=False)
class DiscreteTables:
    """The BDeu evidence of every node given any parent set.

    Attributes
    ----------
    codes
        The level of each variable in each row, from 0 on.
    sizes
        How many levels each variable has.
    kept
        For each variable, the rows in which it was not set from outside.
    sample_size
        The equivalent sample size a.
    weight
        How many times every row counts.

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[0, 1, 0, 1], [0, 1, 1, 1]])
    >>> model = DiscreteTables(codes, np.array([2, 2]), np.ones((2, 4), dtype=bool))
    >>> forward, backward = np.array([[0, 0], [1, 0]]), np.array([[0, 1], [0, 0]])
    >>> score = lambda graph: model.family_scores(np.arange(2), graph.astype(bool)).sum()
    >>> bool(abs(score(forward) - score(backward)) < 1e-12)
    True
    """

    codes: Int[np.ndarray, "m N"]
    sizes: Int[np.ndarray, " m"]
    kept: Bool[np.ndarray, "m N"]
    sample_size: float = SAMPLE_SIZE
    weight: float = 1.0

    @classmethod
    def of(cls, data: Dataset, weight: float = 1.0) -> DiscreteTables:
        """Lay out a table of discrete columns."""
        codes = np.ascontiguousarray(data.values.T).astype(np.int64)
        sizes = np.array([len(levels) for levels in data.levels], dtype=np.int64)
        return cls(codes, sizes, np.ascontiguousarray(~data.intervened.T), weight=weight)

    @property
    def m(self) -> int:
        """The number of variables."""
        return len(self.sizes)

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(P) for each pair of a node j and a parent set P."""
        require_no_self_loops(nodes, parents)
        scores = np.empty(len(nodes))

        def work(pairs: np.ndarray) -> None:
            j = int(nodes[pairs[0]])
            begins = np.concatenate([[0], parents[pairs].sum(axis=1).cumsum()])
            found = np.empty(len(pairs))
            score_families(
                self.codes,
                self.sizes,
                j,
                np.flatnonzero(self.kept[j]),
                np.nonzero(parents[pairs])[1],
                begins,
                self.sample_size,
                self.weight,
                found,
            )
            scores[pairs] = found

        tasks = []
        for j in np.unique(nodes):
            pairs = np.flatnonzero(nodes == j)
            tasks += np.array_split(pairs, max(1, len(pairs) // _AT_ONCE))
        on_all_cores(work, tasks)
        return scores

    def subset_scores(
        self, node: int, candidates: Int[np.ndarray, " k"]
    ) -> Float[np.ndarray, " subsets"]:
        """f_j(S) for every subset S of the candidates, indexed by bit mask."""
        scores = np.empty(1 << len(candidates))
        score_all_subsets(
            self.codes,
            self.sizes,
            node,
            np.flatnonzero(self.kept[node]),
            np.asarray(candidates, dtype=np.int64),
            self.sample_size,
            self.weight,
            scores,
        )
        return scores

    def score_tables(self) -> Float[np.ndarray, "m subsets"]:
        """f_j(S) for every node and every subset S, indexed by bit mask; −∞ where j ∈ S."""
        everyone, codes = np.arange(self.m), np.arange(2**self.m)
        table = np.full((self.m, 2**self.m), -np.inf)

        def work(j: int) -> None:
            table[j, codes >> j & 1 == 0] = self.subset_scores(j, np.delete(everyone, j))

        on_all_cores(work, range(self.m))
        return table

    def counts(self, node: int, parents: Int[np.ndarray, " l"]) -> Float[np.ndarray, "q r"]:
        """n_ck, times the weight of a row, for every possible configuration of the parents."""
        rows, sizes = np.flatnonzero(self.kept[node]), self.sizes[parents]
        place = configurations(self.codes[parents][:, rows], sizes)
        q, r = int(np.prod(sizes)), int(self.sizes[node])
        flat = np.bincount(place * r + self.codes[node, rows], minlength=q * r)
        return self.weight * flat.reshape(q, r)


def configurations(
    codes: Int[np.ndarray, "l N"], sizes: Int[np.ndarray, " l"]
) -> Int[np.ndarray, " N"]:
    """The number of each row's configuration, the first variable counting most.

    Examples
    --------
    >>> configurations(np.array([[0, 1], [2, 0]]), np.array([2, 3])).tolist()
    [2, 3]
    """
    place = np.zeros(codes.shape[1], dtype=np.int64)
    for own, size in zip(codes, sizes, strict=True):
        place = place * size + own
    return place
