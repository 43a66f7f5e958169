"""Orders as permutations that list causes first, and what they allow."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = [
    "feasible",
    "list_columns",
    "places_of",
    "possible_edges",
    "power_ladder",
    "relocate_or_swap",
]


def places_of(orders: Int[np.ndarray, "K m"]) -> Int[np.ndarray, "K m"]:
    """The place of each node in orders that list causes first.

    Examples
    --------
    >>> places_of(np.array([[2, 0, 1]])).tolist()
    [[1, 2, 0]]
    """
    return np.argsort(orders, axis=1, kind="stable")


def possible_edges(
    orders: Int[np.ndarray, "K m"], allowed: Bool[np.ndarray, "m m"]
) -> Bool[np.ndarray, "K m m"]:
    """M(order) ⊙ allowed: ``[k, i, j]`` says that i comes before j in order k and may cause it.

    Examples
    --------
    >>> possible_edges(np.array([[1, 0]]), ~np.eye(2, dtype=bool)).astype(int).tolist()
    [[[0, 0], [1, 0]]]
    """
    place = places_of(orders)
    return (place[:, :, None] < place[:, None, :]) & allowed


def list_columns(
    matrices: Bool[np.ndarray, "K m m"],
) -> tuple[Int[np.ndarray, " P"], Bool[np.ndarray, "P m"]]:
    """All columns of all matrices, one after the other, each with the number of its node.

    Examples
    --------
    >>> nodes, columns = list_columns(np.array([[[False, True], [False, False]]]))
    >>> nodes.tolist(), columns.tolist()
    ([0, 1], [[False, False], [True, False]])
    """
    K, m, _ = matrices.shape
    return np.tile(np.arange(m), K), matrices.swapaxes(1, 2).reshape(-1, m)


def feasible(
    orders: Int[np.ndarray, "K m"], required: Bool[np.ndarray, "m m"]
) -> Bool[np.ndarray, " K"]:
    """Whether every required cause i comes before its effect j (``required[i, j]``).

    Examples
    --------
    >>> feasible(np.array([[0, 1], [1, 0]]), np.array([[False, True], [False, False]])).tolist()
    [True, False]
    """
    place = places_of(orders)
    late = place[:, :, None] > place[:, None, :]  # [k, i, j]: i comes after j
    return ~np.any(late & required, axis=(1, 2))


def power_ladder(levels: int, flattest: float) -> Float[np.ndarray, " levels"]:
    """The power of the target at each level of a tempered chain, rising geometrically to one.

    Examples
    --------
    >>> power_ladder(3, 0.25).tolist(), power_ladder(1, 0.25).tolist()
    ([0.25, 0.5, 1.0], [1.0])
    """
    return np.geomspace(flattest, 1.0, levels) if levels > 1 else np.ones(1)


def relocate_or_swap(
    replicas: Int[np.ndarray, "K levels m"], rng: np.random.Generator, swaps: float = 0.5
) -> Int[np.ndarray, "K levels m"]:
    """A symmetric proposal for each order: a swap of neighbours, or a node at a uniform place.

    Examples
    --------
    >>> relocate_or_swap(np.array([[[0, 1, 2]]]), np.random.default_rng(0), swaps=1.0).tolist()
    [[[0, 2, 1]]]
    """
    orders = replicas.reshape(-1, replicas.shape[2])
    K, m = orders.shape
    swap = rng.random(K) < swaps
    first = rng.integers(m - 1, size=K)
    source = np.where(swap, first, rng.integers(m, size=K))
    target = np.where(swap, first + 1, rng.integers(m, size=K))
    return _relocate(orders, source, target).reshape(replicas.shape)


def _relocate(
    orders: Int[np.ndarray, "K m"], source: Int[np.ndarray, " K"], target: Int[np.ndarray, " K"]
) -> Int[np.ndarray, "K m"]:
    """Each order with the node at place `source` taken to place `target`."""
    place = np.arange(orders.shape[1])[None, :]
    source, target = source[:, None], target[:, None]
    forward = (source <= place) & (place < target)
    backward = (target < place) & (place <= source)
    origin = place + forward.astype(int) - backward.astype(int)
    origin = np.where(place == target, source, origin)
    return np.take_along_axis(orders, origin, axis=1)
