"""The steps of one move of a node, for tests of compiled code."""

from __future__ import annotations

import numpy as np

from svidag.samplers import relocation as relocate
from svidag.scores.lookup import prepare_move


class Compared:
    """What all places of a node gain, and how it is put at one of them.

    `prepared` is work space, or None where all sums are tabulated.
    """

    def __init__(self, i, order, state, compiled, prepared):
        m = len(order)
        place, masks, present = state
        found, spots, self.scores = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m)
        relations, sums = compiled.relations, compiled.subset_sums
        count = relocate.rank_related(i, order, place, relations, found, spots)
        self.found, self.spots = found[:count], spots[:count]
        self.own = int(np.searchsorted(self.spots, place[i]))
        if prepared is not None:
            prepare_move(i, self.found, masks, present, compiled, np.empty(m, np.int64), prepared)
        relocate.compare_stretches(
            i, self.own, self.found, masks, present, sums, relations, prepared, self.scores
        )
        self.i, self.m, self.order, self.state = i, m, order, state
        self.compiled, self.prepared = compiled, prepared

    def stretch(self, there):
        """The number of related nodes before a place."""
        passed = self.spots + (np.arange(len(self.spots)) < self.own)
        return int((passed <= there).sum())

    def by_place(self):
        """The gain of each place."""
        return np.array([self.scores[self.stretch(t)] for t in range(self.m)])

    def slide(self, there):
        """Put the node there."""
        sums, relations = self.compiled.subset_sums, self.compiled.relations
        relocate.slide(
            self.i, there, self.own, self.stretch(there), self.found, self.order, *self.state,
            sums, relations, self.prepared,
        )  # fmt: skip
