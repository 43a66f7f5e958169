"""A layered drawing of the pairs that matter: causes above their effects, few crossings.

The usual steps (Sugiyama): make the pairs acyclic, give every variable a layer, put a waypoint into
every layer that a long connection crosses, order the layers to cross little, and straighten.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression

DRAWN = 0.3
"""Pairs that are at least this surely connected shape the drawing; others are added to it."""
SWEEPS = 24
WAYPOINT = 0.22
"""Room for a waypoint, in widths of a variable."""

STRIPE = 0.2
"""Widest empty stripe between groups of points."""

Point = tuple[float, float]
Edge = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """Where to draw variables and connections.

    Attributes
    ----------
    places
        (column, row) of each variable; columns in widths of a variable, rows in layers.
    routes
        For a pair (upper, lower), the waypoints in between, from above to below.
    size
        Columns and rows in all.
    """

    places: tuple[Point, ...]
    routes: Mapping[Edge, tuple[Point, ...]]
    size: tuple[float, float]


def layered(edges: Float[np.ndarray, "m m"]) -> Layout:
    """Lay out variables by P(i → j), so that most arrows point down.

    Examples
    --------
    >>> import numpy as np
    >>> layout = layered(np.array([[0.0, 0.9, 0.8], [0.0, 0.0, 0.9], [0.0, 0.0, 0.0]]))
    >>> [row for _, row in layout.places]
    [0.0, 1.0, 2.0]
    >>> len(layout.routes[0, 2])
    1
    """
    m = len(edges)
    skeleton = _acyclic(edges)
    touched = {node for edge in skeleton for node in edge}
    alone = [node for node in range(m) if node not in touched]
    width = max(5, math.ceil(1.2 * math.sqrt(m)))
    row = _rows(skeleton, sorted(touched), width)
    chains, layers = _waypoints(skeleton, row)
    links = [link for chain in chains.values() for link in itertools.pairwise(chain)]
    layers = _ordered(layers, links)
    column = _columns(layers, links)
    depth = len(layers)
    columns = max(column.values(), default=0.0) + 1
    for k, node in enumerate(alone):  # below all others, in rows of their own
        across = max(1, min(width, round(columns)))
        column[node], row[node] = float(k % across), depth + k // across
    columns = max(column.values()) + 1
    rows = max(row.values()) + 1
    waypoint_row = {point: r for r, layer in enumerate(layers) for point in layer}
    return Layout(
        tuple((column[node], float(row[node])) for node in range(m)),
        MappingProxyType(
            {
                edge: tuple((column[p], float(waypoint_row[p])) for p in chain[1:-1])
                for edge, chain in chains.items()
            }
        ),
        (columns, float(rows)),
    )


def _acyclic(edges: Float[np.ndarray, "m m"]) -> list[Edge]:
    """Direct the pairs, clearest first, as is more probable unless that would close a cycle.

    A pair whose directions are about as probable follows the rest: it comes last.
    """
    m = len(edges)
    reach = np.eye(m, dtype=bool)
    found = []
    lead = np.abs(edges - edges.T)
    likely = (edges >= edges.T) & (edges + edges.T >= DRAWN) & ~np.eye(m, dtype=bool)
    wanted = {frozenset(pair): pair for pair in map(tuple, np.argwhere(likely).tolist())}
    for i, j in sorted(wanted.values(), key=lambda pair: (-lead[pair], pair)):
        cause, effect = (j, i) if reach[j, i] else (i, j)
        found.append((cause, effect))
        reach |= np.outer(reach[:, cause], reach[effect])
    return found


def _rows(skeleton: Sequence[Edge], nodes: Sequence[int], width: int) -> dict[int, int]:
    """The longest path from a source, at most `width` variables to a layer; sources sink."""
    causes: dict[int, list[int]] = {node: [] for node in nodes}
    effects: dict[int, list[int]] = {node: [] for node in nodes}
    for cause, effect in skeleton:
        causes[effect].append(cause)
        effects[cause].append(effect)
    row: dict[int, int] = {}
    count: dict[int, int] = {}
    waiting = {node: len(causes[node]) for node in nodes}
    ready = [node for node in nodes if not waiting[node]]
    while ready:
        # Of those that may come next, the earliest possible, then the one with most to explain.
        ready.sort(
            key=lambda v: (max((row[c] + 1 for c in causes[v]), default=0), -len(effects[v]))
        )
        node = ready.pop(0)
        place = max((row[cause] + 1 for cause in causes[node]), default=0)
        while count.get(place, 0) >= width:
            place += 1
        row[node] = place
        count[place] = count.get(place, 0) + 1
        for effect in effects[node]:
            waiting[effect] -= 1
            if not waiting[effect]:
                ready.append(effect)
    for node in sorted(nodes, key=lambda v: -row[v]):
        if not causes[node]:
            nearest = min(row[effect] for effect in effects[node]) - 1
            while nearest > row[node] and count.get(nearest, 0) >= width:
                nearest -= 1
            count[row[node]] -= 1
            count[nearest] = count.get(nearest, 0) + 1
            row[node] = nearest
    used = {place: k for k, place in enumerate(sorted(set(row.values())))}
    return {node: used[place] for node, place in row.items()}


def _waypoints(
    skeleton: Sequence[Edge], row: Mapping[int, int]
) -> tuple[dict[Edge, list[int]], list[list[int]]]:
    """Chains of points, one in every layer on the way; waypoints have negative names."""
    layers: list[list[int]] = [[] for _ in range(max(row.values(), default=-1) + 1)]
    for node, place in row.items():
        layers[place].append(node)
    chains, name = {}, -1
    for cause, effect in skeleton:
        chain = [cause]
        for place in range(row[cause] + 1, row[effect]):
            layers[place].append(name)
            chain.append(name)
            name -= 1
        chains[cause, effect] = [*chain, effect]
    return chains, layers


def _ordered(layers: list[list[int]], links: Sequence[Edge]) -> list[list[int]]:
    """Barycentre sweeps up and down; the order with the fewest crossings stays."""
    upper, lower = _neighbours(links)
    best, fewest = layers, _crossings(layers, links)
    current = [list(layer) for layer in layers]
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        sides = range(1, len(layers)) if down else range(len(layers) - 2, -1, -1)
        for k in sides:
            fixed = _positions(current[k - 1 if down else k + 1])
            near = upper if down else lower
            here = _positions(current[k])
            current[k] = sorted(
                current[k], key=lambda p: _mean([fixed[q] for q in near.get(p, ())], here[p])
            )
        crossed = _crossings(current, links)
        if crossed < fewest:
            best, fewest = [list(layer) for layer in current], crossed
    return best


def _positions(layer: Sequence[int]) -> dict[int, float]:
    return {point: float(k) for k, point in enumerate(layer)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _neighbours(links: Sequence[Edge]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    upper: dict[int, list[int]] = {}
    lower: dict[int, list[int]] = {}
    for above, below in links:
        upper.setdefault(below, []).append(above)
        lower.setdefault(above, []).append(below)
    return upper, lower


def _crossings(layers: Sequence[Sequence[int]], links: Sequence[Edge]) -> int:
    """Pairs of links between two layers of which one begins further left and ends further right."""
    place = {point: k for layer in layers for k, point in enumerate(layer)}
    layer_of = {point: r for r, layer in enumerate(layers) for point in layer}
    ends: list[list[Edge]] = [[] for _ in layers]
    for above, below in links:
        ends[layer_of[above]].append((place[above], place[below]))
    total = 0
    for r, own in enumerate(ends[:-1]):
        count = np.zeros((len(layers[r]), len(layers[r + 1]) + 1), dtype=np.int64)
        for above, below in own:
            count[above, below + 1] += 1
        # left[a, b]: links that begin right of a and end left of b.
        left = np.zeros_like(count)
        left[:-1] = count.cumsum(axis=1)[::-1].cumsum(axis=0)[::-1][1:]
        total += int((count[:, 1:] * left[:, :-1]).sum())
    return total


def _columns(layers: Sequence[Sequence[int]], links: Sequence[Edge]) -> dict[int, float]:
    """Pull each point to the mean of its neighbours, in order and at least its own width apart.

    With c_k the room taken by the points before k, the nearest feasible places to wishes w are
    isotonic_regression(w − c) + c.
    """
    upper, lower = _neighbours(links)
    room = [_starts(layer) for layer in layers]
    column = {
        p: float(x)
        for layer, c in zip(layers, room, strict=True)
        for p, x in zip(layer, c, strict=True)
    }
    widest = max((c[-1] for c in room if len(c)), default=0.0)
    for layer, c in zip(layers, room, strict=True):
        for p in layer:
            column[p] += (widest - c[-1]) / 2
    for sweep in range(SWEEPS):
        order = range(len(layers)) if sweep % 2 else range(len(layers) - 1, -1, -1)
        for k in order:
            near = [[*upper.get(p, ()), *lower.get(p, ())] for p in layers[k]]
            wish = np.array(
                [
                    _mean([column[q] for q in qs], column[p])
                    for p, qs in zip(layers[k], near, strict=True)
                ]
            )
            weight = np.array([3.0 if p < 0 else 1.0 for p in layers[k]])
            fitted = isotonic_regression(wish - room[k], weights=weight).x + room[k]
            column |= dict(zip(layers[k], fitted.tolist(), strict=True))
    return _tightened(column)


def _tightened(column: Mapping[int, float]) -> dict[int, float]:
    """Close the empty stripes between groups of points, and begin at 0."""
    placed: dict[int, float] = {}
    shift = end = 0.0
    for p in sorted(column, key=lambda p: column[p] - _width(p) / 2):
        start = column[p] - _width(p) / 2
        if not placed:
            shift = column[p]
        elif start > end + STRIPE:
            shift += start - end - STRIPE
        end = max(end, column[p] + _width(p) / 2) if placed else column[p] + _width(p) / 2
        placed[p] = column[p] - shift
    return placed


def _width(point: int) -> float:
    return WAYPOINT if point < 0 else 1.0


def _starts(layer: Sequence[int]) -> Float[np.ndarray, " k"]:
    """Centres of the points of a layer, packed side by side."""
    width = np.array([_width(p) for p in layer])
    return np.cumsum(width) - width / 2
