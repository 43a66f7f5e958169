"""A posterior for other programs: networkx graphs, and files in formats that they read."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import networkx as nx
import pandas as pd

from svidag import __version__
from svidag.atomic import replacing
from svidag.posterior import Posterior


def to_networkx(posterior: Posterior, threshold: float | None = None) -> nx.DiGraph:
    """The consensus graph, or all arrows with at least a given probability, as a `DiGraph`.

    Nodes are column names; every arrow has its `probability`. The consensus is acyclic, as DoWhy
    wants it; arrows above a threshold may form a cycle.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> graph = to_networkx(svidag.exact.posterior(example.data))
    >>> nx.is_directed_acyclic_graph(graph)
    True
    """
    edges = posterior.edge_probabilities()
    if threshold is None:
        chosen = posterior.consensus().graph.astype(bool)
    elif isinstance(threshold, bool) or not 0 < threshold <= 1:
        raise ValueError(f"threshold must be a probability above 0; got {threshold!r}")
    else:
        chosen = edges >= threshold
    graph = nx.DiGraph()
    graph.add_nodes_from(posterior.names)
    for cause in posterior.names:
        for effect in posterior.names:
            if chosen.loc[cause, effect]:
                graph.add_edge(cause, effect, probability=float(edges.loc[cause, effect]))
    return graph


def edge_list(posterior: Posterior) -> pd.DataFrame:
    """Every ordered pair with its probabilities, the most probable arrow first.

    Columns: cause, effect, probability, reverse, adjacency, and prior where beliefs are known.

    Examples
    --------
    >>> import svidag
    >>> example = svidag.datasets.synthetic(m=3, edges=2, n=100, seed=1)
    >>> list(edge_list(svidag.exact.posterior(example.data)).columns)
    ['cause', 'effect', 'probability', 'reverse', 'adjacency', 'prior']
    """
    edges = posterior.edge_probabilities()
    columns = {"probability": edges, "reverse": edges.T, "adjacency": edges + edges.T}
    if posterior.problem is not None:
        columns["prior"] = posterior.problem.prior.edge_probabilities()
    pairs = [(a, b) for a in posterior.names for b in posterior.names if a != b]
    table = pd.DataFrame(pairs, columns=["cause", "effect"])
    for name, values in columns.items():
        table[name] = [float(values.loc[a, b]) for a, b in pairs]
    return table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)


def write(posterior: Posterior, path: str | Path, format: str | None = None) -> None:  # noqa: A002
    """Write a posterior to a file, in one step; the ending says the format unless it is given.

    ``csv``: every pair with its probabilities; ``json``: the same, with the consensus graph;
    ``dot``, ``gml``, ``graphml``: the consensus graph with the probabilities of its arrows.

    Examples
    --------
    >>> import svidag, tempfile
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> write(svidag.exact.posterior(example.data), Path(tempfile.mkdtemp()) / "graph.dot")
    """
    path = Path(path)
    name = path.suffix.lstrip(".").lower() if format is None else format
    if name not in FORMATS:
        source = f"the ending of {path.name!r}" if format is None else f"format {format!r}"
        raise ValueError(f"{source} is no known format; there are {sorted(FORMATS)}")
    content = FORMATS[name](posterior).encode()
    with replacing(path) as file:
        file.write(content)


def _csv(posterior: Posterior) -> str:
    return edge_list(posterior).to_csv(index=False)


def _json(posterior: Posterior) -> str:
    content = {
        "svidag": __version__,
        "names": list(posterior.names),
        "edges": edge_list(posterior).to_dict(orient="records"),
        "consensus": [[a, b] for a, b in to_networkx(posterior).edges],
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _dot(posterior: Posterior) -> str:
    graph = to_networkx(posterior)
    nodes = [f"  {_quoted(name)};" for name in graph]
    arrows = [
        f'  {_quoted(a)} -> {_quoted(b)} [label="{p:.2f}", penwidth={1 + 3 * p:.2f}];'
        for a, b, p in graph.edges(data="probability")
    ]
    return "\n".join(["digraph svidag {", *nodes, *arrows, "}", ""])


def _quoted(name: str) -> str:
    """A DOT string: quotes are escaped, and a backslash stays one."""
    text = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def _gml(posterior: Posterior) -> str:
    return "\n".join(nx.generate_gml(to_networkx(posterior))) + "\n"


def _graphml(posterior: Posterior) -> str:
    stream = io.BytesIO()
    nx.write_graphml(to_networkx(posterior), stream, encoding="utf-8")
    return stream.getvalue().decode("utf-8")


FORMATS: Mapping[str, Callable[[Posterior], str]] = MappingProxyType(
    {"csv": _csv, "dot": _dot, "gml": _gml, "graphml": _graphml, "json": _json}
)
"""Every format by name: a posterior in, the file's text out."""
