"""Distances between graphs: structural Hamming, F1, structural intervention distance."""

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import ArrayLike

from svidag.graph import adjacency, ancestors, require_dag


def shd(
    draws: ArrayLike, truth: ArrayLike, *, reversal: Literal[1, 2] = 1
) -> Int[np.ndarray, " S"]:
    """Structural Hamming distance of every draw: pairs to add, delete or re-mark.

    Serves DAGs and CPDAGs alike: a pair {i, j} whose two cells differ from the truth counts
    once, so directed against undirected is 1. With ``reversal=2`` cells are counted instead.

    Examples
    --------
    >>> shd([[[0, 0], [1, 0]]], [[0, 1], [0, 0]])
    array([1])
    """
    draws, truth = _comparable(draws, truth)
    differs = draws != truth
    if reversal == 1:
        differs = np.triu(differs | differs.swapaxes(1, 2))
    return differs.sum(axis=(1, 2))


def f1(draws: ArrayLike, truth: ArrayLike) -> Float[np.ndarray, " S"]:
    """F1 score of every draw over ordered pairs, 2 TP / (2 TP + FP + FN); 0 if TP = 0.

    Examples
    --------
    >>> f1([[[0, 1, 1], [0, 0, 0], [0, 0, 0]]], [[0, 1, 0], [0, 0, 0], [0, 0, 0]]).round(3)
    array([0.667])
    """
    draws, truth = _comparable(draws, truth)
    right = (draws & truth).sum(axis=(1, 2), dtype=np.float64)
    marked = draws.sum(axis=(1, 2), dtype=np.float64) + truth.sum(dtype=np.float64)
    return 2 * right / np.maximum(marked, 1)


def sid(truth: ArrayLike, estimate: ArrayLike) -> int:
    """Structural intervention distance: ordered pairs (i, j) whose effect the estimate gets wrong.

    The estimate says p(x_j | do x_i) by adjusting for its parents Z of i (and "no effect" if j is
    among them). That is wrong in the true DAG if j ∈ Z is a descendant of i, or, for j ∉ Z, if Z
    holds a descendant of a node on a directed path from i to j, or fails to block some path from
    i to j that is not directed (Peters & Bühlmann, *Structural intervention distance*, 2015).

    Examples
    --------
    >>> sid(truth=[[0, 1], [0, 0]], estimate=[[0, 0], [1, 0]])
    2
    >>> sid(truth=[[0, 0], [0, 0]], estimate=[[0, 1], [0, 0]])
    0
    """
    A = require_dag(truth, "truth").astype(bool)
    parents = require_dag(estimate, "estimate").astype(bool).T
    if A.shape != parents.shape:
        raise ValueError(f"estimate has {len(parents)} variables, but truth has {len(A)}")
    below = ancestors(A)
    wrong = 0
    for i, Z in enumerate(parents):
        leads_to_Z = Z | below[:, Z].any(axis=1)
        spoilt = below[i] & leads_to_Z
        spoilt |= below[spoilt].any(axis=0)
        biased = spoilt | _open_ends(A, i, Z, leads_to_Z)
        wrong += int(np.where(Z, below[i], biased).sum())
    return wrong


def _open_ends(
    A: Bool[np.ndarray, "m m"],
    i: int,
    Z: Bool[np.ndarray, " m"],
    leads_to_Z: Bool[np.ndarray, " m"],
) -> Bool[np.ndarray, " m"]:
    """Nodes to which some path from i that is not directed is open given Z.

    A walk arrives along forward arrows only, or later by an arrow into the node, or out of it.
    One that turns round below a directed path does so at a node that leads to Z, so that the
    effect is spoilt there already and counting walks instead of paths changes nothing.
    """
    others = np.arange(len(A)) != i
    arrived = np.stack([A[i], np.zeros_like(Z), A[:, i]])
    while True:
        along, into, out = arrived
        down = [A[along & ~Z].any(axis=0), A[(into | out) & ~Z].any(axis=0)]
        up = A[:, ((along | into) & leads_to_Z) | (out & ~Z)].any(axis=1)
        after = arrived | (np.stack([*down, up]) & others)
        if (after == arrived).all():
            return into | out
        arrived = after


def _comparable(
    draws: ArrayLike, truth: ArrayLike
) -> tuple[UInt8[np.ndarray, "S m m"], UInt8[np.ndarray, "m m"]]:
    draws, truth = adjacency(draws, "draws", ndim=3), adjacency(truth, "truth")
    if draws.shape[1:] != truth.shape:
        raise ValueError(f"draws have {draws.shape[-1]} variables, but truth has {len(truth)}")
    return draws, truth
