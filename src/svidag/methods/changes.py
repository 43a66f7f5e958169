"""Which mechanisms change with the environment, averaged over graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from svidag.mechanisms.environments import EnvironmentScores
from svidag.posterior import GraphDistribution

DRAWS = 400
"""Graphs that are averaged over; the error of a probability is at most 0.025."""


def mechanism_changes(
    scores: Any, graphs: GraphDistribution, seed: int
) -> dict[str, tuple[float, ...]] | None:
    """P(k | D) of every node, by the name of k; None without environments."""
    if not isinstance(scores, EnvironmentScores):
        return None
    drawn = graphs.sample(DRAWS, seed)
    m = drawn.shape[1]
    nodes, sets = np.tile(np.arange(m), len(drawn)), drawn.swapaxes(1, 2).reshape(-1, m)
    different, count = np.unique(np.column_stack([nodes, sets]), axis=0, return_counts=True)
    found = scores.probabilities(different[:, 0], different[:, 1:].astype(bool))
    mean = np.zeros((m, found.shape[1]))
    np.add.at(mean, different[:, 0], found * count[:, None] / len(drawn))
    return {
        name: tuple(column.tolist()) for name, column in zip(scores.structures, mean.T, strict=True)
    }
