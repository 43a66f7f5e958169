"""Local scores f_j(S): which parent sets are scored, and tables of them by bit mask."""

from svidag.scores.growth import extensions, pressing, tabulate
from svidag.scores.screening import forward_selection, screen
from svidag.scores.tables import FamilyScores, ScoreTables, subset_maxima, subset_sums

__all__ = [
    "FamilyScores",
    "ScoreTables",
    "extensions",
    "forward_selection",
    "pressing",
    "screen",
    "subset_maxima",
    "subset_sums",
    "tabulate",
]
