"""The arrows of a posterior as a table and as a networkx graph."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
from jaxtyping import Bool

from svidag.graph import adjacency
from svidag.posterior import Posterior

MANY_VARIABLES, LEAST = 200, 0.001
"""With more variables than this, lists leave out pairs that are less surely connected than this:
nearly all of them, which would make files of a hundred megabytes."""


def edge_list(posterior: Posterior, least: float | None = None) -> pd.DataFrame:
    """Every ordered pair with its probabilities, the most probable arrow first.

    Columns: cause, effect, probability, reverse (of the opposite arrow), adjacency (their sum) and,
    where beliefs are known, prior (of the arrow before the data).

    Parameters
    ----------
    posterior
        Where the probabilities are from.
    least
        Leave out pairs whose adjacency is less probable: by default none, and with more than 200
        variables those below 0.001.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=3, edges=2, n=100, seed=1)
    >>> list(edge_list(svidag.exact.posterior(example.data)).columns)
    ['cause', 'effect', 'probability', 'reverse', 'adjacency', 'prior']
    """
    m = len(posterior.names)
    least = least_listed(m) if least is None else least
    edges = posterior.graphs.edge_probabilities()
    return _table(posterior, (edges + edges.T >= least) & ~np.eye(m, dtype=bool))


def least_listed(m: int) -> float:
    """The least probability of an adjacency that lists of m variables contain by default.

    Examples
    --------
    >>> least_listed(200), least_listed(500)
    (0.0, 0.001)
    """
    return LEAST if m > MANY_VARIABLES else 0.0


def to_networkx(
    posterior: Posterior, threshold: float | None = None, *, graph: pd.DataFrame | None = None
) -> nx.DiGraph:
    """A directed graph on all the variables, each arrow with its probabilities.

    Nodes are column names. The consensus is acyclic, as DoWhy wants it; arrows above a threshold
    may form a cycle.

    Parameters
    ----------
    posterior
        Where the probabilities are from.
    threshold
        Take all arrows with at least this probability; by default the consensus graph.
    graph
        Take these arrows: a labelled frame, for instance from `top_graphs` or from `consensus`
        at another threshold.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> graph = to_networkx(svidag.exact.posterior(example.data))
    >>> nx.is_directed_acyclic_graph(graph)
    True
    """
    table = _table(posterior, _chosen(posterior, threshold, graph))
    found = nx.DiGraph()
    found.add_nodes_from(posterior.names)
    for row in table.to_dict("records"):
        probabilities = {name: float(row[name]) for name in list(table)[2:]}
        found.add_edge(row["cause"], row["effect"], **probabilities)
    return found


def _table(posterior: Posterior, chosen: Bool[np.ndarray, "m m"]) -> pd.DataFrame:
    p = posterior.graphs.edge_probabilities()
    i, j = np.nonzero(chosen)
    ranked = np.argsort(-p[i, j], kind="stable")
    i, j = i[ranked], j[ranked]
    names = np.array(posterior.names, dtype=object)
    columns = {
        "cause": names[i],
        "effect": names[j],
        "probability": p[i, j],
        "reverse": p[j, i],
        "adjacency": p[i, j] + p[j, i],
    }
    if posterior.problem is not None:
        columns["prior"] = posterior.problem.prior.edge_probabilities().to_numpy()[i, j]
    return pd.DataFrame(columns)


def _chosen(
    posterior: Posterior, threshold: float | None, graph: pd.DataFrame | None
) -> Bool[np.ndarray, "m m"]:
    if graph is not None and threshold is not None:
        raise ValueError("give a threshold or a graph, not both")
    if graph is not None:
        return _given(posterior, graph)
    if threshold is None:
        return posterior.consensus().graph.to_numpy() == 1
    if isinstance(threshold, bool) or not 0 < threshold <= 1:
        raise ValueError(f"threshold must be a probability above 0; got {threshold!r}")
    return posterior.graphs.edge_probabilities() >= threshold


def _given(posterior: Posterior, graph: pd.DataFrame) -> Bool[np.ndarray, "m m"]:
    names = list(posterior.names)
    if sorted(map(str, graph.index)) != sorted(names) or set(graph.columns) != set(graph.index):
        raise ValueError(
            "graph must have one row and one column for each variable of the posterior; got "
            f"{list(graph.index)} and {list(graph.columns)}"
        )
    return adjacency(graph.loc[names, names], "graph") == 1
