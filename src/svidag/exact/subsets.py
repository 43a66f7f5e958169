"""Sums over subsets, kept as logarithms; a subset of m nodes is a bit mask below 2^m."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Num


def popcount(codes: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
    """The number of members of each subset."""
    return np.bitwise_count(codes).astype(np.int64)


def members(codes: Int[np.ndarray, "..."], m: int) -> Int[np.ndarray, "... m"]:
    """The subsets as 0/1 rows."""
    return (codes[..., None] >> np.arange(m)) & 1


def codes(rows: Num[np.ndarray, "... m"]) -> Int[np.ndarray, "..."]:
    """The bit masks of 0/1 rows."""
    return rows.astype(np.int64) @ (1 << np.arange(rows.shape[-1]))


def additive(values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " subsets"]:
    """Σ_{i∈S} values_i for every subset S, with −∞ allowed among the values."""
    total = np.zeros(1)
    for value in values:
        total = np.concatenate([total, total + value])
    return total


def without_own(table: Float[np.ndarray, "m subsets"]) -> Float[np.ndarray, "m half"]:
    """Of the row of each node j, the sets without j.

    Examples
    --------
    >>> without_own(np.arange(8.0).reshape(2, 4)).tolist()
    [[0.0, 2.0], [4.0, 5.0]]
    """
    return np.stack([row.reshape(-1, 2, 1 << j)[:, 0].ravel() for j, row in enumerate(table)])


def with_own(half: Float[np.ndarray, "m half"]) -> Float[np.ndarray, "m subsets"]:
    """The whole table again, −∞ for sets that hold the node itself."""
    m = len(half)
    if half.shape != (m, 1 << m >> 1):
        raise ValueError(f"a table over sets has the shape {half.shape}; expected (m, 2^(m − 1))")
    table = np.full((m, 1 << m), -np.inf)
    for j, row in enumerate(half):
        table[j].reshape(-1, 2, 1 << j)[:, 0] = row.reshape(-1, 1 << j)
    return table


def superset_sums(log_weights: Float[np.ndarray, " subsets"]) -> Float[np.ndarray, " subsets"]:
    """log Σ_{U⊇S} exp w(U) for every S."""
    table = log_weights.copy()
    for bit in range(_width(table)):
        halves = table.reshape(-1, 2, 1 << bit)
        halves[:, 0] = np.logaddexp(halves[:, 0], halves[:, 1])
    return table


def draw_subsets(
    log_weights: Float[np.ndarray, " subsets"],
    within: Int[np.ndarray, " S"],
    rng: np.random.Generator,
) -> Int[np.ndarray, " S"]:
    """One subset S ⊆ U for each U in `within`, with probability ∝ exp w(S).

    Undoes the zeta transform from the last bit to the first: at each bit the two halves of the
    sum are the odds of leaving the element out.
    """
    # Stage b sums over the subsets that agree with their index on bits b and above.
    stages = [log_weights]
    for bit in range(_width(log_weights)):
        stages.append(stages[-1].copy())
        _add_without(stages[-1], bit)
    chosen = within.copy()
    for bit in reversed(range(_width(log_weights))):
        present = (chosen >> bit) & 1 == 1
        keep = np.exp(stages[bit][chosen] - stages[bit + 1][chosen])
        drop = present & (rng.random(len(chosen)) >= keep)
        chosen = np.where(drop, chosen & ~(1 << bit), chosen)
    return chosen


def _add_without(table: np.ndarray, bit: int) -> None:
    """To each set with the bit, add the same set without it; in place."""
    halves = table.reshape(-1, 2, 1 << bit)
    halves[:, 1] = np.logaddexp(halves[:, 1], halves[:, 0])


def _width(table: np.ndarray) -> int:
    return len(table).bit_length() - 1
