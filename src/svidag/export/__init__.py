"""A posterior for other programs: objects of theirs, and files in formats that they read.

Column names come through unchanged; what a format cannot hold is an error that names the column.
"""

from svidag.export.files import FORMATS, write
from svidag.export.graphs import edge_list, to_networkx
from svidag.export.packages import to_arviz, to_pgmpy

__all__ = ["FORMATS", "edge_list", "to_arviz", "to_networkx", "to_pgmpy", "write"]
