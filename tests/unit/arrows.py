"""Graphs by their arrows."""

import numpy as np


def graph(m: int, *arrows: tuple[int, int]) -> np.ndarray:
    A = np.zeros((m, m), dtype=np.uint8)
    for i, j in arrows:
        A[i, j] = 1
    return A
