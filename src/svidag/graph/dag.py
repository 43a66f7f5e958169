"""Directed acyclic graphs as 0/1 matrices: checks, orders, ancestors, enumeration, random draws."""

from itertools import product
from math import comb, log
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import ArrayLike

from svidag.graph.bitset import bits, masks, parts
from svidag.graph.compiled import below_cycles, reach_all


class LimitError(ValueError):
    """An exact count or enumeration would exceed the limit the caller set."""


def adjacency(A: ArrayLike, name: str = "A", ndim: int | None = 2) -> UInt8[np.ndarray, "*S m m"]:
    """Return adjacency matrices as uint8, once they are square, 0/1 and zero on the diagonal.

    Parameters
    ----------
    A
        One matrix or a stack of them, ``A[..., i, j] = 1`` for i → j.
    name
        What to call the argument in an error.
    ndim
        Number of axes to insist on; None takes any number from two.

    Raises
    ------
    ValueError
        Naming the first offending entry.

    Examples
    --------
    >>> adjacency([[0, 1], [0, 0]])
    array([[0, 1],
           [0, 0]], dtype=uint8)
    """
    A = np.asarray(A)
    wanted = "[..., m, m]" if ndim is None else ("[m, m]" if ndim == 2 else "[S, m, m]")
    if A.ndim < 2 or A.ndim != (ndim or A.ndim) or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"{name} must have shape {wanted}, got {list(A.shape)}")
    if A.dtype != np.uint8 or A.max(initial=0) > 1:
        wrong = (A != 0) & (A != 1)
        if wrong.any():
            raise ValueError(f"{_entry(A, wrong, name)}; every entry must be 0 or 1")
    if np.diagonal(A, axis1=-2, axis2=-1).any():
        loops = (A == 1) & np.eye(A.shape[-1], dtype=bool)
        raise ValueError(f"{_entry(A, loops, name)}; the diagonal must be 0 (no self-loops)")
    return A.astype(np.uint8)


def _entry(A: np.ndarray, where: np.ndarray, name: str) -> str:
    first = tuple(int(k) for k in np.argwhere(where)[0])
    return f"{name}[{', '.join(map(str, first))}] is {A[first]}"


def are_dags(draws: ArrayLike) -> Bool[np.ndarray, " S"]:
    """Which of the graphs [S, m, m] have no directed cycle.

    Examples
    --------
    >>> are_dags([[[0, 1], [0, 0]], [[0, 1], [1, 0]]])
    array([ True, False])
    """
    return np.logical_not(_core(adjacency(draws, "draws", ndim=3)).any(axis=-1))


def _core(draws: UInt8[np.ndarray, "S m m"]) -> Bool[np.ndarray, "S m"]:
    """Nodes left when parentless nodes are taken away until none is: on or below a cycle."""
    left = np.empty(draws.shape[:2], dtype=bool)
    below_cycles(draws, left)
    return left


def is_dag(A: ArrayLike) -> bool:
    """Whether the graph has no directed cycle.

    Examples
    --------
    >>> is_dag([[0, 1], [1, 0]])
    False
    """
    return bool(are_dags(adjacency(A)[None])[0])


def find_cycle(A: ArrayLike) -> list[int] | None:
    """Nodes of one directed cycle in arrow order, the last pointing at the first; None in a DAG.

    Examples
    --------
    >>> find_cycle([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    [0, 1, 2]
    """
    A = adjacency(A)
    core = _core(A[None])[0]
    if not core.any():
        return None
    # Every core node has a parent in the core, so walking upwards must come round.
    walk = [int(np.argmax(core))]
    while walk[-1] not in walk[:-1]:
        walk.append(int(np.argmax(A[:, walk[-1]] * core)))
    cycle = walk[walk.index(walk[-1]) : -1][::-1]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


def require_dag(A: ArrayLike, name: str = "A") -> UInt8[np.ndarray, "m m"]:
    """Return the adjacency matrix, once it is known to have no directed cycle.

    Raises
    ------
    ValueError
        Naming a cycle.

    Examples
    --------
    >>> require_dag([[0, 1], [0, 0]]).sum()
    np.uint64(1)
    """
    A = adjacency(A, name)
    cycle = find_cycle(A)
    if cycle is not None:
        raise ValueError(
            f"{name} must be acyclic, but has the cycle {' → '.join(map(str, [*cycle, cycle[0]]))}"
        )
    return A


def require_dags(draws: ArrayLike, name: str = "draws") -> UInt8[np.ndarray, "S m m"]:
    """Return the stack of adjacency matrices, once it is known that none has a directed cycle.

    Raises
    ------
    ValueError
        Naming the first cyclic draw and a cycle of it.

    Examples
    --------
    >>> require_dags([[[0, 1], [0, 0]]]).shape
    (1, 2, 2)
    """
    draws = adjacency(draws, name, ndim=3)
    acyclic = are_dags(draws)
    if not acyclic.all():
        first = int(np.argmin(acyclic))
        require_dag(draws[first], f"{name}[{first}]")
    return draws


def topological_order(A: ArrayLike) -> Int[np.ndarray, " m"]:
    """All nodes, parents before children; among free nodes the smallest comes first.

    Examples
    --------
    >>> topological_order([[0, 0, 0], [1, 0, 0], [1, 1, 0]])
    array([2, 1, 0])
    """
    A = require_dag(A)
    waiting = A.sum(axis=0, dtype=np.int64)
    order = np.empty(len(A), dtype=np.int64)
    for position in range(len(A)):
        node = int(np.argmax(waiting == 0))
        order[position] = node
        waiting -= A[node]
        waiting[node] = -1
    return order


def ancestors(A: ArrayLike) -> Bool[np.ndarray, "*S m m"]:
    """Entry [..., i, j] says whether a directed path leads from i to j (i ≠ j in a DAG).

    Leading axes are a batch.

    Examples
    --------
    >>> ancestors([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).astype(int)
    array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]])
    """
    graphs = adjacency(A, ndim=None)
    reached = np.empty(graphs.shape, dtype=bool)
    shape = (-1, *graphs.shape[-2:])
    reach_all(graphs.reshape(shape), reached.reshape(shape))
    return reached


def distinct(
    draws: ArrayLike,
) -> tuple[UInt8[np.ndarray, "U m m"], Int[np.ndarray, " S"]]:
    """Return the different graphs among the draws, and for each draw which of them it is.

    Examples
    --------
    >>> graphs, which = distinct([[[0, 1], [0, 0]], [[0, 0], [0, 0]], [[0, 1], [0, 0]]])
    >>> len(graphs), which
    (2, array([1, 0, 1]))
    """
    draws = adjacency(draws, "draws", ndim=3)
    if draws.size == 0:
        return draws[:1], np.zeros(len(draws), dtype=np.int64)
    packed = np.packbits(draws.reshape(len(draws), -1), axis=1)
    rows = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    return draws[first], inverse


def all_dags(m: int) -> UInt8[np.ndarray, "count m m"]:
    """Every labelled DAG on m ≤ 5 nodes: 1, 3, 25, 543, 29 281 of them.

    Examples
    --------
    >>> len(all_dags(3))
    25
    """
    if not 1 <= m <= 5:
        raise ValueError(f"m must be between 1 and 5 (29 281 graphs), got {m}")
    # Three states per unordered pair: no cycle of length two is ever made.
    pairs = np.triu_indices(m, 1)
    states = np.array(list(product((0, 1, 2), repeat=len(pairs[0]))), dtype=np.uint8)
    graphs = np.zeros((len(states), m, m), dtype=np.uint8)
    graphs[:, pairs[0], pairs[1]] = states == 1
    graphs[:, pairs[1], pairs[0]] = states == 2
    return graphs[are_dags(graphs)]


def random_dag(
    m: int, edges: int, kind: Literal["er", "sf"] = "er", *, seed: int
) -> UInt8[np.ndarray, "m m"]:
    """Draw a DAG with exactly `edges` edges and randomly labelled nodes.

    ``"er"`` (Erdős–Rényi): the pairs are chosen uniformly and directed along a uniform order.
    ``"sf"`` (scale free): nodes arrive one by one and choose their parents among those already
    there, without replacement and with weight degree + 1, so early nodes become hubs with many
    children. The edges are shared out as evenly as the number of predecessors allows; those left
    over go to random nodes.

    Examples
    --------
    >>> random_dag(5, 6, seed=0).sum()
    np.uint64(6)
    """
    possible = m * (m - 1) // 2
    if not 0 <= edges <= possible:
        raise ValueError(f"edges must be between 0 and {possible} for m = {m}, got {edges}")
    if kind not in ("er", "sf"):
        raise ValueError(f"kind must be 'er' or 'sf', got {kind!r}")
    rng = np.random.default_rng(seed)
    ordered = (_erdos_renyi if kind == "er" else _scale_free)(m, edges, rng)
    label = rng.permutation(m)
    A = np.zeros_like(ordered)
    A[np.ix_(label, label)] = ordered
    return A


def _erdos_renyi(m: int, edges: int, rng: np.random.Generator) -> UInt8[np.ndarray, "m m"]:
    rows, columns = np.triu_indices(m, 1)
    chosen = rng.choice(len(rows), size=edges, replace=False)
    A = np.zeros((m, m), dtype=np.uint8)
    A[rows[chosen], columns[chosen]] = 1
    return A


def _scale_free(m: int, edges: int, rng: np.random.Generator) -> UInt8[np.ndarray, "m m"]:
    predecessors = np.arange(m)
    level = max(k for k in range(m) if np.minimum(predecessors, k).sum() <= edges)
    parents = np.minimum(predecessors, level)
    spare = edges - int(parents.sum())
    parents[rng.choice(np.flatnonzero(predecessors > level), size=spare, replace=False)] += 1
    A = np.zeros((m, m), dtype=np.uint8)
    for node in range(1, m):
        weight = 1.0 + A[:node, :node].sum(axis=0) + A[:node, :node].sum(axis=1)
        chosen = rng.choice(node, size=parents[node], replace=False, p=weight / weight.sum())
        A[chosen, node] = 1
    return A


def linear_extensions(A: ArrayLike, *, limit: int = 100_000) -> int:
    """Count the topological orders of a DAG exactly.

    Splits what is left into weakly connected parts, whose orders interleave freely, and sums
    over the first element of each part, remembering every part it meets. Sparse graphs of 30
    nodes take well under a second; the number of parts can grow exponentially.

    Parameters
    ----------
    limit
        Largest number of parts to remember.

    Raises
    ------
    LimitError
        If there are more.

    Examples
    --------
    >>> linear_extensions([[0, 1, 1], [0, 0, 0], [0, 0, 0]])
    2
    """
    A = require_dag(A)
    try:
        return _orders(ancestors(A), limit)
    except RecursionError:
        raise LimitError(f"counting the orders of {len(A)} nodes nests too deeply") from None


def log_linear_extensions(draws: ArrayLike, *, limit: int = 100_000) -> Float[np.ndarray, " S"]:
    """Natural logarithm of `linear_extensions` for every draw; equal partial orders counted once.

    Examples
    --------
    >>> log_linear_extensions([[[0, 1], [0, 0]], [[0, 0], [0, 0]]]).round(3)
    array([0.   , 0.693])
    """
    closures, which = distinct(ancestors(require_dags(draws)))
    logs = [log(linear_extensions(closure, limit=limit)) for closure in closures]
    return np.array(logs, dtype=np.float64)[which]


def _orders(closure: Bool[np.ndarray, "m m"], limit: int) -> int:
    above, below = masks(closure.T), masks(closure)
    comparable = [a | b for a, b in zip(above, below, strict=True)]
    counts = {}
    for part in parts((1 << len(closure)) - 1, comparable):
        # From the end with fewer extremes the parts fall apart sooner.
        sources = sum(above[v] == 0 for v in bits(part))
        sinks = sum(below[v] == 0 for v in bits(part))
        ahead = above if sources <= sinks else below
        counts[part] = _connected_orders(part, ahead, comparable, {}, limit)
    return _interleaved(counts)


def _interleaved(counts: dict[int, int]) -> int:
    """Count the orders of unrelated parts together, from the number of orders of each."""
    total, placed = 1, 0
    for part, count in counts.items():
        placed += part.bit_count()
        total *= comb(placed, part.bit_count()) * count
    return total


def _connected_orders(
    part: int, ahead: list[int], comparable: list[int], known: dict[int, int], limit: int
) -> int:
    """Count the orders of a connected part as the sum over its possible first elements."""
    if part.bit_count() <= 2:
        return 1
    if part not in known:
        if len(known) >= limit:
            raise LimitError(f"counting the orders of a graph needs more than limit={limit} sets")
        total = 0
        for first in bits(part):
            if not ahead[first] & part:
                rest = parts(part & ~(1 << first), comparable)
                total += _interleaved(
                    {p: _connected_orders(p, ahead, comparable, known, limit) for p in rest}
                )
        known[part] = total
    return known[part]
