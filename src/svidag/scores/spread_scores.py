"""Scores of families that are computed by many workers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from svidag.mechanisms.local import FamilyScores
from svidag.run.pools import Pool, Shared, ignore
from svidag.run.side_by_side import run_all
from svidag.scores.counted_scores import by_set

LEAST_SECONDS = 0.05
"""A task takes at least this long: ten times what it takes to send it and its result."""

MOST_SECONDS = 2.0
"""And about this at most, so that workers end together."""

TASKS_PER_WORKER = 2
"""At least, where the work suffices: families take different times."""


@dataclass(eq=False)
class SpreadScores:
    """Scores families on the workers of a pool, in blocks; a few of them here.

    A block never divides the families of one parent set, so that the numbers are those of the
    source, whatever the blocks.

    Attributes
    ----------
    source
        The mechanism; workers get it once.
    pool
        The workers.

    Examples
    --------
    >>> from svidag.mechanisms.linear import LinearGaussian
    >>> from svidag.run.pools import Threads
    >>> model = LinearGaussian.from_values(np.random.default_rng(0).standard_normal((9, 3)))
    >>> families = np.arange(3), np.zeros((3, 3), dtype=bool)
    >>> found = SpreadScores(model, Threads(), seconds=1.0).family_scores(*families)
    >>> bool((found == model.family_scores(*families)).all())
    True
    """

    source: FamilyScores
    pool: Pool
    seconds: float = 0.002
    """What a family takes, as measured last."""
    _shared: Shared = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._shared = Shared(self.source)

    def family_scores(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B m"]
    ) -> Float[np.ndarray, " B"]:
        """f_j(S) of the source."""
        expected = len(nodes) * self.seconds
        if expected < 2 * LEAST_SECONDS:
            scores, seconds = _score(self.source, (nodes, parents), ignore)
            self._learn(len(nodes), seconds)
            return scores
        ranked, ends = by_set(parents)
        workers = self.pool.size
        tasks = max(workers * TASKS_PER_WORKER, math.ceil(expected / MOST_SECONDS))
        tasks = min(tasks, int(expected / LEAST_SECONDS))
        tasks -= tasks % workers if tasks > workers else 0  # as many for each
        wanted = np.linspace(0, len(nodes), tasks + 1)[1:-1]
        cuts = np.unique(ends[np.searchsorted(ends, wanted)])
        blocks = [block for block in np.split(ranked, cuts) if len(block)]
        found = run_all(
            _score,
            [(nodes[block], parents[block]) for block in blocks],
            pool=self.pool,
            shared=self._shared,
        )
        scores = np.empty(len(nodes))
        for block, (part, _) in zip(blocks, found, strict=True):
            scores[block] = part
        self._learn(len(nodes), sum(seconds for _, seconds in found))
        return scores

    def _learn(self, families: int, seconds: float) -> None:
        if families:
            self.seconds = 0.5 * (self.seconds + seconds / families)


def _score(
    source: FamilyScores,
    families: tuple[Int[np.ndarray, " B"], Bool[np.ndarray, "B m"]],
    alive: Callable[..., None],
) -> tuple[Float[np.ndarray, " B"], float]:
    """The scores of a block and the seconds that they took, as a task."""
    began = time.perf_counter()
    return source.family_scores(*families), time.perf_counter() - began
