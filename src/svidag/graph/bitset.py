"""Sets of nodes as the bits of a Python integer: node v is in `s` iff ``s >> v & 1``."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np


def masks(rows: np.ndarray) -> list[int]:
    """Each row of a 0/1 matrix as a set of its columns.

    Examples
    --------
    >>> masks(np.array([[0, 1, 1], [1, 0, 0]]))
    [6, 1]
    """
    packed = np.packbits(rows.astype(bool), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def bits(nodes: int) -> Iterator[int]:
    """Yield the members of the set, ascending.

    Examples
    --------
    >>> list(bits(6))
    [1, 2]
    """
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def parts(nodes: int, near: Sequence[int] | Mapping[int, int]) -> Iterator[int]:
    """Yield the connected parts of the undirected graph `near` (neighbour sets) on these nodes.

    Examples
    --------
    >>> list(parts(0b111, [0b010, 0b001, 0b000]))
    [3, 4]
    """
    while nodes:
        part = frontier = nodes & -nodes
        while frontier:
            lowest = frontier & -frontier
            found = near[lowest.bit_length() - 1] & nodes & ~part
            part |= found
            frontier = (frontier ^ lowest) | found
        yield part
        nodes &= ~part
