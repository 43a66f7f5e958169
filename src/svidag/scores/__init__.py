"""Local scores f_j(S): which parent sets are scored, and tables of them by bit mask."""

from svidag.scores.counted_scores import CountedScores
from svidag.scores.parent_sets import (
    ParentSets,
    Shares,
    Weigher,
    compute_shares,
    log_evidence,
    score_neighbours,
    sum_parent_sets,
)
from svidag.scores.selection import forward_selection
from svidag.scores.tables import NodeTable, ScoreTables, subset_sums

__all__ = [
    "CountedScores",
    "NodeTable",
    "ParentSets",
    "ScoreTables",
    "Shares",
    "Weigher",
    "compute_shares",
    "forward_selection",
    "log_evidence",
    "score_neighbours",
    "subset_sums",
    "sum_parent_sets",
]
