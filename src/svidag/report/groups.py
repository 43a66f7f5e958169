"""Groups of variables with more connections among themselves than to others, for large graphs."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np
from jaxtyping import Float

FEWEST_VARIABLES = 50
"""With no more variables than this one drawing shows everything."""
CONNECTED = 0.5
"""Pairs that are at least this surely connected bind a group."""
SMALLEST = 3
"""Variables of a group that is listed."""


@dataclass(frozen=True)
class VariableGroup:
    """Variables that are connected among themselves.

    Attributes
    ----------
    members
        Places of the variables, the one with the most connections first.
    inside, outside
        Expected connections among the members, and with other variables.
    """

    members: tuple[int, ...]
    inside: float
    outside: float


def groups(edges: Float[np.ndarray, "m m"]) -> tuple[VariableGroup, ...]:
    """Groups by the Louvain method, weighted by P(connected), the largest first.

    Examples
    --------
    >>> edges = np.zeros((60, 60))
    >>> edges[0, 1] = edges[0, 2] = edges[1, 2] = 0.9
    >>> edges[3, 4] = edges[3, 5] = edges[3, 6] = 0.8
    >>> [group.members for group in groups(edges)]
    [(3, 4, 5, 6), (0, 1, 2)]
    """
    if len(edges) <= FEWEST_VARIABLES:
        return ()
    connected = np.minimum(edges + edges.T, 1.0)
    pairs = np.argwhere(np.triu(connected >= CONNECTED, 1)).tolist()
    graph = nx.Graph()
    graph.add_weighted_edges_from((i, j, float(connected[i, j])) for i, j in pairs)
    found = nx.community.louvain_communities(graph, seed=0)
    listed = [_group(sorted(members), connected) for members in found if len(members) >= SMALLEST]
    return tuple(sorted(listed, key=lambda group: (-len(group.members), group.members)))


def _group(members: list[int], connected: Float[np.ndarray, "m m"]) -> VariableGroup:
    among = connected[np.ix_(members, members)]
    ranked = [members[k] for k in np.argsort(-among.sum(axis=1), kind="stable")]
    inside = float(among.sum()) / 2
    return VariableGroup(tuple(ranked), inside, float(connected[members].sum()) - 2 * inside)
