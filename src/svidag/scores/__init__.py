"""Local scores f_j(S): which parent sets are scored, and tables of them by bit mask."""

from svidag.scores.counting import CountedScores
from svidag.scores.growth import extensions, fill, grow
from svidag.scores.refinement import neighbours, pressing, sketched_share, weighty
from svidag.scores.screening import forward_selection, screen
from svidag.scores.tables import (
    NodeTable,
    ScoreTables,
    TableSizeError,
    subset_maxima,
    subset_sums,
)

__all__ = [
    "CountedScores",
    "NodeTable",
    "ScoreTables",
    "TableSizeError",
    "extensions",
    "fill",
    "forward_selection",
    "grow",
    "neighbours",
    "pressing",
    "screen",
    "sketched_share",
    "subset_maxima",
    "subset_sums",
    "weighty",
]
