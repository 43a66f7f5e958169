"""Local scores f_j(S): which parent sets are scored, and tables of them by bit mask."""

from svidag.scores.counting import CountedScores
from svidag.scores.parent_sets import ParentSets, Shares, Weigher, evidence, neighbours, shares
from svidag.scores.selection import forward_selection
from svidag.scores.tables import NodeTable, ScoreTables, subset_sums

__all__ = [
    "CountedScores",
    "NodeTable",
    "ParentSets",
    "ScoreTables",
    "Shares",
    "Weigher",
    "evidence",
    "forward_selection",
    "neighbours",
    "shares",
    "subset_sums",
]
