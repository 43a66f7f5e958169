"""Files in the formats of other programs, written in one step."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import networkx as nx

from svidag import __version__
from svidag.atomic import replacing
from svidag.data.columns import show
from svidag.export.graphs import edge_list, least_listed, to_networkx
from svidag.posterior import Posterior

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(
    posterior: Posterior,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
) -> Path:
    """Write a posterior to a file, in one step; the ending says the format unless it is given.

    ``csv``: every pair with its probabilities (with more than 200 variables, those connected with
    at least 0.001); ``json``: the same, with the consensus graph;
    ``dot`` (or ``gv``), ``gml``, ``graphml``: the consensus graph with the probabilities of its
    arrows; ``svg``, ``png``: a drawing. Returns the path.

    Examples
    --------
    >>> import svidag, tempfile
    >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
    >>> path = Path(tempfile.mkdtemp()) / "graph.dot"
    >>> write(svidag.exact.posterior(example.data), path) == path
    True
    """
    path = Path(path)
    name = path.suffix.lstrip(".").lower() if format is None else format
    if name in IMAGES:
        return posterior.plot().save(path, name)
    if name not in FORMATS:
        source = f"the ending of {path.name!r}" if format is None else f"format {format!r}"
        known = sorted([*FORMATS, *IMAGES])
        raise ValueError(f"{source} is not a known format; there are {known}")
    _require_names(posterior.names, name)
    content = FORMATS[name](posterior).encode()
    with replacing(path) as file:
        file.write(content)
    return path


def _csv(posterior: Posterior) -> str:
    table = edge_list(posterior)
    return table.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")


def _json(posterior: Posterior) -> str:
    content = {
        "svidag": __version__,
        "names": list(posterior.names),
        "least_adjacency": least_listed(len(posterior.names)),
        "edges": edge_list(posterior).to_dict(orient="records"),
        "consensus": [[a, b] for a, b in to_networkx(posterior).edges],
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _dot(posterior: Posterior) -> str:
    """A name is its own identifier, in quotes and with a backslash doubled.

    In an identifier a line break stands for itself, in a label it has to be escaped.
    """
    graph = to_networkx(posterior)
    nodes = [f"  {_quoted(name)} [label={_label(name)}];" for name in graph]
    arrows = [
        f'  {_quoted(a)} -> {_quoted(b)} [label="{p:.2f}", penwidth={1 + 3 * p:.2f}, '
        f"probability={p!r}];"
        for a, b, p in graph.edges(data="probability")
    ]
    return "\n".join(["digraph svidag {", *nodes, *arrows, "}", ""])


def _quoted(name: str) -> str:
    text = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _label(name: str) -> str:
    return _quoted(name).replace("\n", "\\n")


def _gml(posterior: Posterior) -> str:
    return "\n".join(nx.generate_gml(to_networkx(posterior))) + "\n"


def _graphml(posterior: Posterior) -> str:
    stream = io.BytesIO()
    nx.write_graphml(to_networkx(posterior), stream, encoding="utf-8")
    return stream.getvalue().decode("utf-8")


FORMATS: Mapping[str, Callable[[Posterior], str]] = MappingProxyType(
    {"csv": _csv, "dot": _dot, "gml": _gml, "graphml": _graphml, "gv": _dot, "json": _json}
)
"""Every format of text by name: a posterior in, the file's text out."""

IMAGES = ("png", "svg")
"""Formats of `Posterior.plot`."""


def _require_names(names: tuple[str, ...], format_: str) -> None:
    """Every name can be written in this format and read back."""
    for name in names:
        if format_ == "graphml" and _NOT_XML.search(name):
            reason = "XML has no such character"
        elif format_ in ("dot", "gv") and "\0" in name:
            reason = "Graphviz ends a text at its NUL"
        else:
            continue
        raise ValueError(
            f"column {show(name)} cannot be written as {format_}: {reason}; "
            "rename it, or write json"
        )
