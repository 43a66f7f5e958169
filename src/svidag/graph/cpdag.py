"""Completed partially directed graphs: what all members of a Markov equivalence class share."""

import numpy as np
from jaxtyping import Bool, UInt8
from numpy.typing import ArrayLike

from svidag.graph.dag import adjacency, distinct, require_dag, require_dags

# Entries per block of draws: keeps the working set in cache and the memory flat.
_BLOCK = 1 << 18


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
    return _complete(A[None].astype(bool))[0].astype(np.uint8)


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
    completed = np.empty_like(graphs)
    step = max(1, _BLOCK // max(1, graphs.shape[1] ** 2))
    for start in range(0, len(graphs), step):
        block = slice(start, start + step)
        completed[block] = _complete(graphs[block].astype(bool), known_directions)
    return completed[which]


def _complete(
    A: Bool[np.ndarray, "S m m"], known_directions: Bool[np.ndarray, "m m"] | None = None
) -> Bool[np.ndarray, "S m m"]:
    skeleton = A | _transpose(A)
    apart = ~skeleton & ~np.eye(A.shape[-1], dtype=bool)
    directed = A & (
        _meet(apart, A) if known_directions is None else _meet(apart, A) | known_directions
    )
    active = np.arange(len(A))
    while active.size:
        before = directed[active]
        after = before | _meek(before, skeleton[active], apart[active])
        if known_directions is not None:
            after |= _fourth_rule(after, skeleton[active], apart[active])
        directed[active] = after
        active = active[(after != before).any(axis=(1, 2))]
    return directed | (skeleton & ~_transpose(directed))


def _meek(
    directed: Bool[np.ndarray, "S m m"],
    skeleton: Bool[np.ndarray, "S m m"],
    apart: Bool[np.ndarray, "S m m"],
) -> Bool[np.ndarray, "S m m"]:
    """Arrows i → j that Meek's rules 1, 2 and 3 put on undirected edges i – j."""
    undirected = skeleton & ~directed & ~_transpose(directed)
    away = _meet(_transpose(directed), apart)  # 1: k → i – j, k and j not adjacent
    onward = _meet(directed, directed)  # 2: i → k → j
    arrows = undirected & (away | onward)
    # 3: i – k → j and i – l → j, k and l not adjacent; needs two such k to begin with.
    s, i, j = np.nonzero(undirected & ~arrows & (_count(undirected, directed) > 1))
    both = undirected[s, i, :] & directed[s, :, j]
    arrows[s, i, j] = (_meet(both[:, None, :], apart[s])[:, 0] & both).any(axis=-1)
    return arrows


def _fourth_rule(
    directed: Bool[np.ndarray, "S m m"],
    skeleton: Bool[np.ndarray, "S m m"],
    apart: Bool[np.ndarray, "S m m"],
) -> Bool[np.ndarray, "S m m"]:
    """Arrows i → j on undirected edges i – j with i – k → l → j, k and j not adjacent.

    With j → i instead, i → k would follow, since j and k are not adjacent, and close a cycle.
    """
    undirected = skeleton & ~directed & ~_transpose(directed)
    onward = _meet(directed, directed) & apart  # k → l → j
    return undirected & _meet(undirected, onward)


def _count(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Count the k with left[i, k] and right[k, j], in the type for which BLAS is fast."""
    return left.astype(np.float32) @ right.astype(np.float32)


def _meet(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return _count(left, right) > 0


def _transpose(A: np.ndarray) -> np.ndarray:
    return A.swapaxes(-1, -2)
