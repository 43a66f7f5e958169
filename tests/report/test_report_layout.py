"""The drawing is layered: arrows point down, points keep apart, long ones avoid variables."""

import itertools

import numpy as np
import pytest

from svidag.graph import random_dag
from svidag.report.layout import WAYPOINT, layered


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("m", "edges"), [(2, 1), (11, 20), (50, 80)])
def test_arrows_point_down_and_points_keep_apart(m, edges, seed):
    A = random_dag(m, edges, seed=seed).astype(float)
    layout = layered(A)
    rows = np.array([row for _, row in layout.places])
    assert all(rows[i] < rows[j] for i, j in np.argwhere(A))
    assert set(layout.routes) == {(i, j) for i, j in np.argwhere(A).tolist()}
    points = [(*place, 1.0) for place in layout.places]
    for (i, j), route in layout.routes.items():
        assert [row for _, row in route] == list(np.arange(rows[i] + 1, rows[j]))
        points += [(*place, WAYPOINT) for place in route]
    for row in set(rows):
        level = sorted((x, width) for x, y, width in points if y == row)
        for (x, width), (y, other) in itertools.pairwise(level):
            assert y - x >= (width + other) / 2 - 1e-9
    assert max(x for x, _, _ in points) <= layout.size[0] - 1 + 1e-9
    assert rows.max() + 1 == layout.size[1]


def test_a_cycle_of_averages_still_has_layers():
    edges = np.array([[0.0, 0.9, 0.1], [0.1, 0.0, 0.9], [0.8, 0.1, 0.0]])
    rows = [row for _, row in layered(edges).places]
    assert rows == [0.0, 1.0, 2.0]


def test_variables_without_connection_come_last():
    layout = layered(np.array([[0.0, 0.0, 0.9], [0.0, 0.0, 0.1], [0.0, 0.0, 0.0]]))
    assert layout.places[1][1] == 2.0
    assert layered(np.zeros((3, 3))).size[1] >= 1


def test_a_tree_is_drawn_without_crossings():
    edges = np.zeros((7, 7))
    for child in range(1, 7):
        edges[(child - 1) // 2, child] = 1.0
    layout = layered(edges[::-1, ::-1])
    places = {6 - k: place for k, place in enumerate(layout.places)}
    assert places[1][1] == places[2][1] == 1
    leaves = sorted(range(3, 7), key=lambda k: places[k][0])
    assert {frozenset(leaves[:2]), frozenset(leaves[2:])} == {frozenset((3, 4)), frozenset((5, 6))}
