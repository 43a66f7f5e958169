"""Graphs as 0/1 matrices with ``A[i, j] = 1`` for i → j: DAGs, CPDAGs, equivalence classes.

NumPy and numba only; knows nothing of data, priors or inference.
"""

from svidag.graph.cpdag import cpdag, cpdags
from svidag.graph.dag import (
    LimitError,
    adjacency,
    all_dags,
    ancestors,
    are_dags,
    distinct,
    find_cycle,
    is_dag,
    linear_extensions,
    log_linear_extensions,
    random_dag,
    require_dag,
    require_dags,
    topological_order,
)
from svidag.graph.mec import members, size

__all__ = [
    "LimitError",
    "adjacency",
    "all_dags",
    "ancestors",
    "are_dags",
    "cpdag",
    "cpdags",
    "distinct",
    "find_cycle",
    "is_dag",
    "linear_extensions",
    "log_linear_extensions",
    "members",
    "random_dag",
    "require_dag",
    "require_dags",
    "size",
    "topological_order",
]
