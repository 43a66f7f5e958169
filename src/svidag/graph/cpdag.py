"""Completed partially directed graphs: what all members of a Markov equivalence class share."""

import numpy as np
from jaxtyping import Bool, UInt8
from numpy.typing import ArrayLike

from svidag.graph.compiled import complete_all
from svidag.graph.dag import adjacency, distinct, require_dag, require_dags


def cpdag(A: ArrayLike, *, allow_cyclic: bool = False) -> UInt8[np.ndarray, "m m"]:
    """Return the CPDAG of a DAG: i → j is 1 in cell [i, j] only, undirected i – j in both cells.

    Edges that share their target with a non-adjacent parent keep their direction; Meek's rules
    1–3 then direct every other edge that all members of the class direct alike; his fourth rule
    is needed only where some directions are known from elsewhere, see `cpdags`.

    Parameters
    ----------
    A
        The graph, ``A[i, j] = 1`` for i → j.
    allow_cyclic
        Run the same procedure on a graph with cycles, as some published comparisons do. Such a
        graph has no equivalence class of DAGs and the result is a convention, not a CPDAG; an
        edge that the rules would direct both ways stays undirected.

    Examples
    --------
    >>> cpdag([[0, 1, 0], [0, 0, 0], [0, 1, 0]])  # 0 → 1 ← 2 stays
    array([[0, 1, 0],
           [0, 0, 0],
           [0, 1, 0]], dtype=uint8)
    >>> cpdag([[0, 1, 0], [0, 0, 1], [0, 0, 0]])  # 0 → 1 → 2 is 0 – 1 – 2
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]], dtype=uint8)
    """
    A = adjacency(A) if allow_cyclic else require_dag(A)
    return _complete(A[None])[0]


def cpdags(
    draws: ArrayLike,
    *,
    allow_cyclic: bool = False,
    known_directions: Bool[np.ndarray, "m m"] | None = None,
) -> UInt8[np.ndarray, "S m m"]:
    """Return the CPDAG of every draw; a graph that is drawn repeatedly is converted once.

    Parameters
    ----------
    draws
        The graphs.
    allow_cyclic
        As for `cpdag`.
    known_directions
        True, in both cells, for pairs whose direction is known from elsewhere, as it is if one of
        the two was intervened on without the other. The class is then the smaller one of graphs
        that also agree on these; if all come from interventions, its graph is the essential graph
        of Hauser & Bühlmann (2012). Meek's fourth rule makes it complete for any knowledge.

    Examples
    --------
    >>> cpdags([[[0, 1], [0, 0]], [[0, 0], [1, 0]]]).sum(axis=(1, 2))
    array([2, 2], dtype=uint64)
    >>> cpdags([[[0, 1], [0, 0]]], known_directions=np.ones((2, 2), dtype=bool)).tolist()
    [[[0, 1], [0, 0]]]
    """
    draws = adjacency(draws, "draws", ndim=3)
    if not allow_cyclic:
        require_dags(draws)
    graphs, which = distinct(draws)
    return _complete(graphs, known_directions)[which]


def _complete(
    graphs: UInt8[np.ndarray, "S m m"], known_directions: Bool[np.ndarray, "m m"] | None = None
) -> UInt8[np.ndarray, "S m m"]:
    completed = np.empty_like(graphs)
    known = np.zeros(graphs.shape[1:], dtype=bool)
    if known_directions is not None:
        known |= known_directions
    complete_all(graphs, known, known_directions is not None, completed)
    return completed
