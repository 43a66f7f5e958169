"""Uniform linear extensions: random orders of the nodes in which every given edge points forward.

Two exact samplers share the work. Where the given edges have few *ideals* (sets of nodes that
contain all their ancestors), counting extensions from each ideal gives the probability of every
next node. Elsewhere an extension is read off a uniform point of the order polytope

    { x in [0, 1]^k : x_i > x_j for every edge i → j },

whose chambers, one for each extension, all have volume 1/k!. Gibbs sampling of that point is
monotone, so the chain can be run from the past (Propp and Wilson 1996) until its highest and its
lowest start meet.

Where there are too many ideals to count extensions, their number is estimated from orders that are
drawn from first to last, each next node with probability proportional to its descendants and
itself. The inverse probability of such an order has the number of extensions as its mean (Knuth
1975), and no variance in a forest, where this is the uniform distribution.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from svidag.graph.bitset import bits, masks, parts
from svidag.graph.dag import ancestors, require_dags

CELLS_AT_ONCE = 2**22
"""Estimates are made in blocks of about this many nodes."""
MEETING_GAP = 1e-9
"""Two starts have met when no coordinate differs by more than this."""


def draw_linear_extensions(
    A: Bool[np.ndarray, "m m"], n: int, rng: np.random.Generator, *, ideals: int = 2**14
) -> Int[np.ndarray, "n m"]:
    """Draw n orders, uniform among those that put i before j for every edge i → j of A.

    Given the positions that a connected part of A takes up, its own order is uniform and
    independent of the other parts, so each part is drawn alone and put into the positions that
    a uniform permutation gave it.

    Parameters
    ----------
    A
        An acyclic graph; ``A[i, j]`` is i → j.
    n
        Number of orders.
    rng
        Source of randomness.
    ideals
        Parts with more ideals than this are drawn from the past instead of by counting.

    Returns
    -------
    orders
        Each row lists the nodes, first to last.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)
    >>> orders = draw_linear_extensions(A, 1000, np.random.default_rng(0))
    >>> {tuple(map(int, order)) for order in orders} == {(0, 1, 2), (1, 0, 2)}
    True
    """
    m = len(A)
    orders = rng.permuted(np.tile(np.arange(m), (n, 1)), axis=1)
    position = np.argsort(orders, axis=1)
    for part in parts(2**m - 1, masks(A | A.T)):
        nodes = np.array(list(bits(part)))
        if len(nodes) == 1:
            continue
        slots = np.sort(position[:, nodes], axis=1)
        inner = _draw_connected(A[np.ix_(nodes, nodes)], n, rng, ideals)
        np.put_along_axis(orders, slots, nodes[inner], axis=1)
    return orders


def estimate_log_linear_extensions(
    graphs: UInt8[np.ndarray, "S m m"], n: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, " S"]]:
    """Estimate the log number of linear extensions of each graph from n orders.

    Returns
    -------
    logs
        The log of an unbiased estimate.
    errors
        The relative standard error of that estimate.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[[0, 0, 1], [0, 0, 1], [0, 0, 0]]], dtype=np.uint8)
    >>> log, error = estimate_log_linear_extensions(A, 100, np.random.default_rng(0))
    >>> np.exp(log).round(6), error.round(6)
    (array([2.]), array([0.]))
    """
    size = 1 + ancestors(require_dags(graphs)).sum(axis=2)
    logs = np.empty((len(graphs), n))
    step = max(1, CELLS_AT_ONCE // (n * graphs.shape[1]))
    for start in range(0, len(graphs), step):
        rows = slice(start, start + step)
        drawn = _log_inverse_probabilities(
            np.repeat(graphs[rows], n, axis=0), np.repeat(size[rows], n, axis=0), rng
        )
        logs[rows] = drawn.reshape(-1, n)
    top = logs.max(axis=1)
    counts = np.exp(logs - top[:, None])
    mean = counts.mean(axis=1)
    return top + np.log(mean), counts.std(axis=1) / mean / np.sqrt(n)


def _log_inverse_probabilities(
    graphs: UInt8[np.ndarray, "B m m"], size: Int[np.ndarray, "B m"], rng: np.random.Generator
) -> Float[np.ndarray, " B"]:
    """Minus the log probability of one order of each graph, drawn by the sizes of what follows."""
    B, m = size.shape
    every, log = np.arange(B), np.zeros(B)
    waiting = graphs.sum(axis=1, dtype=np.int64)
    for _ in range(m):
        weight = np.where(waiting == 0, size, 0).cumsum(axis=1)
        total = weight[:, -1]
        first = (weight <= (rng.random(B) * total)[:, None]).sum(axis=1)
        log += np.log(total) - np.log(size[every, first])
        waiting -= graphs[every, first]
        waiting[every, first] = -1  # placed
    return log


def _draw_connected(
    A: Bool[np.ndarray, "k k"], n: int, rng: np.random.Generator, ideals: int
) -> Int[np.ndarray, "n k"]:
    lattice = _lattice(A, ideals)
    if lattice is not None:
        return _walk(lattice, len(A), n, rng)
    return np.argsort(-_polytope_points(A, n, rng), axis=1)


class _Lattice(NamedTuple):
    """From each ideal: the nodes that may come next, the ideals they lead to, their chances."""

    node: Int[np.ndarray, "ideals width"]
    target: Int[np.ndarray, "ideals width"]
    cumulative: Float[np.ndarray, "ideals width"]


def _lattice(A: Bool[np.ndarray, "k k"], limit: int) -> _Lattice | None:
    """Count the linear extensions from every ideal; None if there are more than `limit`."""
    moves = _ideals(A, limit)
    if moves is None:
        return None
    index = {ideal: row for row, ideal in enumerate(moves)}
    count: dict[int, int] = {}
    for ideal in reversed(moves):
        count[ideal] = sum(count[ideal | 1 << v] for v in moves[ideal]) if moves[ideal] else 1
    shape = len(moves), max(map(len, moves.values()))
    node, target = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    cumulative = np.ones(shape)
    for row, (ideal, choices) in enumerate(moves.items()):
        total = 0
        for column, v in enumerate(choices):
            total += count[ideal | 1 << v]
            node[row, column], target[row, column] = v, index[ideal | 1 << v]
            cumulative[row, column] = total / count[ideal]
    return _Lattice(node, target, cumulative)


def _ideals(A: Bool[np.ndarray, "k k"], limit: int) -> dict[int, list[int]] | None:
    """Every ideal as a bit mask, smaller ones first, with the nodes that may be added to it."""
    parents = [sum(1 << int(i) for i in np.flatnonzero(column)) for column in A.T]
    moves: dict[int, list[int]] = {0: []}
    level = [0]
    while level:
        following: dict[int, None] = {}
        for ideal in level:
            moves[ideal] = [
                v for v, need in enumerate(parents) if not ideal >> v & 1 and need & ideal == need
            ]
            following.update(dict.fromkeys(ideal | 1 << v for v in moves[ideal]))
        if len(moves) + len(following) > limit:
            return None
        moves.update({ideal: [] for ideal in following})
        level = list(following)
    return moves


def _walk(lattice: _Lattice, k: int, n: int, rng: np.random.Generator) -> Int[np.ndarray, "n k"]:
    """Climb from the empty ideal to the full one, n times at once."""
    state, steps = np.zeros(n, dtype=np.int64), []
    for _ in range(k):
        choice = (rng.random(n)[:, None] >= lattice.cumulative[state]).sum(axis=1)
        steps.append(lattice.node[state, choice])
        state = lattice.target[state, choice]
    return np.stack(steps, axis=1)


def _polytope_points(
    A: Bool[np.ndarray, "k k"], n: int, rng: np.random.Generator
) -> Float[np.ndarray, "n k"]:
    """Draw n uniform points of the order polytope by coupling from the past.

    Each restart goes twice as far back and meets the same random numbers at the same times.
    """
    entropy = int(rng.integers(2**63))
    sweeps = 16
    while True:
        low, high = np.zeros((len(A), n)), np.ones((len(A), n))
        for time in range(sweeps, 0, -1):
            u = np.random.default_rng([entropy, time]).random((len(A), n))
            _sweep(A, low, u)
            _sweep(A, high, u)
        if (high - low).max(initial=0.0) < MEETING_GAP:
            return high.T
        sweeps *= 2


def _sweep(
    A: Bool[np.ndarray, "k k"], x: Float[np.ndarray, "k n"], u: Float[np.ndarray, "k n"]
) -> None:
    """Redraw each coordinate, in place, uniformly between its children and its parents."""
    for v in range(len(A)):
        floor = x[A[v]].max(axis=0, initial=0.0)
        ceiling = x[A[:, v]].min(axis=0, initial=1.0)
        x[v] = floor + u[v] * (ceiling - floor)
