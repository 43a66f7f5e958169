"""Markov equivalence classes: all DAGs with the same CPDAG, counted and listed.

The undirected edges of a CPDAG form chordal components that are oriented independently of one
another. An orientation without cycles and without new v-structures has exactly one source per
component; fixing the source directs some edges and leaves smaller components, and so on (He,
Jia & Yu, *Counting and exploring sizes of Markov equivalence classes*, JMLR 2015).
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from math import factorial, prod
from operator import or_

import numpy as np
from jaxtyping import UInt8
from numpy.typing import ArrayLike

from svidag.graph.bitset import bits, masks, parts
from svidag.graph.cpdag import cpdag
from svidag.graph.dag import LimitError


def size(A: ArrayLike) -> int:
    """Count the DAGs in the Markov equivalence class of A, exactly and without listing them.

    Examples
    --------
    >>> size([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    3
    """
    return _size(_undirected(cpdag(A)))


def members(A: ArrayLike, *, limit: int = 100_000) -> UInt8[np.ndarray, "k m m"]:
    """All DAGs of the Markov equivalence class of A, in an order that depends on the class only.

    Raises
    ------
    LimitError
        If the class has more than `limit` members, saying how many.

    Examples
    --------
    >>> len(members([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    3
    """
    completed = cpdag(A)
    near = _undirected(completed)
    total = _size(near)
    if total > limit:
        raise LimitError(f"the equivalence class has {total} members, more than limit={limit}")
    known: dict[int, np.ndarray] = {}
    choices = [_orientations(part, near, known) for part in _components(_all(near), near)]
    return _combine(completed & ~completed.T, choices)


def _undirected(completed: UInt8[np.ndarray, "m m"]) -> list[int]:
    return masks(completed & completed.T)


def _all(near: list[int]) -> int:
    return (1 << len(near)) - 1


def _components(nodes: int, near: Sequence[int] | Mapping[int, int]) -> list[int]:
    return [part for part in parts(nodes, near) if part.bit_count() > 1]


def _size(near: list[int]) -> int:
    known: dict[int, int] = {}
    return prod(_count(part, near, known) for part in _components(_all(near), near))


def _count(part: int, near: list[int], known: dict[int, int]) -> int:
    """Count the orientations of a chordal component without listing them."""
    if part not in known:
        nodes = part.bit_count()
        edges = sum((near[v] & part).bit_count() for v in bits(part)) // 2
        if edges == nodes * (nodes - 1) // 2:
            known[part] = factorial(nodes)
        elif edges == nodes - 1:
            known[part] = nodes
        else:
            rests = (_rooted(part, source, near)[1] for source in bits(part))
            known[part] = sum(prod(_count(p, near, known) for p in rest) for rest in rests)
    return known[part]


def _orientations(
    part: int, near: list[int], known: dict[int, np.ndarray]
) -> UInt8[np.ndarray, "k m m"]:
    """List the orientations of a chordal component, each as the arrows inside it."""
    if part not in known:
        found = []
        for source in bits(part):
            pairs, undecided = _rooted(part, source, near)
            arrows = np.zeros((len(near), len(near)), dtype=np.uint8)
            arrows[tuple(np.array(pairs).T)] = 1
            found.append(_combine(arrows, [_orientations(p, near, known) for p in undecided]))
        known[part] = np.concatenate(found)
    return known[part]


def _combine(
    arrows: UInt8[np.ndarray, "m m"], choices: Sequence[np.ndarray]
) -> UInt8[np.ndarray, "k m m"]:
    """Join the given arrows with every combination of one choice per component."""
    graphs = arrows[None]
    for choice in choices:
        graphs = (graphs[:, None] | choice).reshape(-1, *arrows.shape)
    return graphs


def _rooted(part: int, source: int, near: list[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Arrows common to all orientations with this source, and the components they leave open."""
    into = dict.fromkeys(bits(part), 0)
    undecided = []
    front, left = 1 << source, part & ~(1 << source)
    while left:
        layer = reduce(or_, (near[v] for v in bits(front))) & left
        loose = {v: near[v] & layer for v in bits(layer)}
        into.update({v: near[v] & front for v in bits(layer)})
        _propagate(loose, into, near)
        undecided += _components(layer, loose)
        front, left = layer, left & ~layer
    return [(v, w) for w in into for v in bits(into[w])], undecided


def _propagate(loose: dict[int, int], into: dict[int, int], near: list[int]) -> None:
    """Direct v – w as v → w wherever a parent of v is not adjacent to w, until nothing moves."""
    waiting = list(loose)
    while waiting:
        v = waiting.pop()
        for w in bits(loose[v]):
            if into[v] & ~near[w]:
                into[w] |= 1 << v
                loose[v] &= ~(1 << w)
                loose[w] &= ~(1 << v)
                waiting.append(w)
