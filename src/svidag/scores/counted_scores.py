"""Scores that report how many families they have scored, for progress messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.mechanisms.local import FamilyScores

FIRST_BLOCK = 256  # families in the first block
SECONDS = 0.5  # a block that takes less is followed by a larger one


@dataclass(frozen=True, eq=False)
class CountedScores:
    """Scores families in blocks and reports the size of each finished block.

    A block never divides the families of one parent set, so that a mechanism which factorises a set
    once for all its nodes gives the same numbers whatever the blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> reported = []
    >>> model = LinearGaussian.from_values(np.random.default_rng(0).standard_normal((9, 2)))
    >>> counted = CountedScores(model, reported.append)
    >>> counted.family_scores(np.array([0, 1]), np.zeros((2, 2), dtype=bool)).shape
    (2,)
    >>> reported
    [2]
    """

    source: FamilyScores
    report: Callable[[int], None]

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) of the source."""
        if len(nodes) == 0:
            return self.source.family_scores(nodes, parents)
        scores = np.empty(len(nodes))
        ranked, ends = by_set(parents)
        start, size = 0, FIRST_BLOCK
        while start < len(nodes):
            end = int(ends[min(np.searchsorted(ends, start + size), len(ends) - 1)])
            began = time.perf_counter()
            block = ranked[start:end]
            scores[block] = self.source.family_scores(nodes[block], parents[block])
            if time.perf_counter() - began < SECONDS:
                size *= 2
            self.report(end - start)
            start = end
        return scores


def by_set(parents: Bool[np.ndarray, "B m"]) -> tuple[Int[np.ndarray, " B"], np.ndarray]:
    """A permutation that puts equal parent sets side by side, and where each group ends."""
    packed = np.packbits(parents, axis=1)
    _, which = np.unique(packed, axis=0, return_inverse=True)
    which = which.reshape(-1)
    ranked = np.argsort(which, kind="stable")
    return ranked, np.append(np.flatnonzero(np.diff(which[ranked])) + 1, len(parents))
