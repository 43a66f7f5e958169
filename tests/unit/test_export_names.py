"""Graphs and tables for other programs: the same arrows and names when read back."""

import io
import json
import os
import re
import sys
import types

import networkx
import numpy as np
import pandas as pd
import pydot
import pytest
import xarray

import svidag
from svidag import export
from svidag.posterior import DrawnGraphs, Posterior

ODD = (
    "a b",
    "1",
    'q"uote',
    "<script>alert(1)</script>",
    "new\nline",
    "Größe→☃",
    "back\\slash\\",
    "tab\tcr\r",
    "&amp;",
    "=1+1",
    "it's, a; list",
    "digraph",
    "graph [ node ]",
    "NA",
)


def odd():
    m = len(ODD)
    graph = np.triu(np.random.default_rng(0).random((m, m)) < 0.4, 1).astype(np.uint8)
    graphs = np.stack([graph, graph * np.triu(np.ones((m, m), np.uint8), 2), graph * 0])
    return Posterior(ODD, DrawnGraphs(graphs, np.array([0.6, 0.3, 0.1])))


def cyclic():
    graphs = np.zeros((3, 3, 3), np.uint8)
    for s in range(3):
        graphs[s, s, (s + 1) % 3] = graphs[s, (s + 1) % 3, (s + 2) % 3] = 1
    return Posterior(("a", "b", "c"), DrawnGraphs(graphs, np.array([0.4, 0.35, 0.25])))


def arrows(graph):
    return {(a, b): attributes["probability"] for a, b, attributes in graph.edges(data=True)}


def unquoted(text):
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def read_dot(path):
    # By its text: pydot would open the file with the line ends translated.
    (graph,) = pydot.graph_from_dot_data(path.read_bytes().decode())
    found = networkx.DiGraph()
    found.add_nodes_from(unquoted(node.get_name()) for node in graph.get_nodes())
    for edge in graph.get_edges():
        ends = unquoted(edge.get_source()), unquoted(edge.get_destination())
        found.add_edge(*ends, probability=float(edge.get("probability")))
    return found


READERS = {
    "dot": read_dot,
    "gv": read_dot,
    "graphml": networkx.read_graphml,
    "gml": networkx.read_gml,
}


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")  # pydot's own
@pytest.mark.parametrize("suffix", READERS)
def test_a_graph_comes_back_with_names_and_probabilities(suffix, tmp_path):
    posterior = odd()
    path = export.write(posterior, tmp_path / f"graph.{suffix}")
    read = READERS[suffix](path)
    wanted = posterior.to_networkx()
    assert list(read) == list(ODD)
    assert arrows(read) == arrows(wanted)
    assert len(arrows(wanted)) > 20


def test_html_in_a_name_is_text(tmp_path):
    assert "<script>" not in export.write(odd(), tmp_path / "g.graphml").read_text()
    # DOT takes an unquoted <…> for HTML.
    assert "=<" not in export.write(odd(), tmp_path / "g.dot").read_text()


def test_the_consensus_is_acyclic_and_all_arrows_need_not_be():
    posterior = cyclic()
    consensus = posterior.to_networkx()
    assert networkx.is_directed_acyclic_graph(consensus)
    assert networkx.to_pandas_adjacency(consensus, weight=None).equals(
        posterior.consensus().graph.astype(float)
    )
    everything = posterior.to_networkx(0.1)
    assert not networkx.is_directed_acyclic_graph(everything)
    assert everything.edges["b", "c"] == pytest.approx(
        {"probability": 0.75, "reverse": 0.0, "adjacency": 0.75}
    )
    assert list(posterior.to_networkx(1.0)) == ["a", "b", "c"]


def test_a_given_graph_is_matched_by_name():
    posterior = cyclic()
    graph = posterior.top_graphs(1)[0].graph
    shuffled = graph.loc[["c", "a", "b"], ["b", "c", "a"]]
    assert set(posterior.to_networkx(graph=shuffled).edges) == {("a", "b"), ("b", "c")}
    with pytest.raises(ValueError, match="one row and one column for each variable"):
        posterior.to_networkx(graph=graph.rename(index={"a": "z"}))
    with pytest.raises(ValueError, match="a threshold or a graph, not both"):
        posterior.to_networkx(0.5, graph=graph)


def test_the_edge_list_has_what_was_believed(tmp_path):
    table = svidag.datasets.synthetic(m=3, edges=2, n=50, seed=1).data
    prior = svidag.Prior(beliefs={("x1", "x2"): 0.9})
    posterior = svidag.exact.posterior(table, prior=prior)
    edges = export.edge_list(posterior)
    p, before = posterior.edge_probabilities(), prior.bind(list(table)).edge_probabilities()
    for row in edges.to_dict("records"):
        pair = row["cause"], row["effect"]
        assert row["probability"] == p.loc[pair]
        assert row["reverse"] == p.loc[pair[::-1]]
        assert row["prior"] == before.loc[pair]
    path = export.write(posterior, tmp_path / "edges.csv")
    pd.testing.assert_frame_equal(pd.read_csv(path), edges, check_dtype=False, rtol=1e-14)
    assert "prior" not in export.edge_list(cyclic())


def test_names_survive_csv_and_json(tmp_path):
    text = export.write(odd(), tmp_path / "edges.csv").read_bytes().decode()
    names = {"dtype": {"cause": str, "effect": str}, "keep_default_na": False}
    read = pd.read_csv(io.StringIO(text, newline=""), **names)
    assert set(read["cause"]) == set(ODD)
    assert len(read) == len(ODD) * (len(ODD) - 1)
    content = json.loads(export.write(odd(), tmp_path / "edges.json").read_bytes())
    assert content["names"] == list(ODD)
    assert {tuple(pair) for pair in content["consensus"]} == set(odd().to_networkx().edges)


@pytest.mark.parametrize(
    ("name", "format_", "reason"),
    [
        ("a\x01b", "graphml", r"column 'a\\x01b' cannot be written as graphml: XML has no such"),
        ("a\0b", "dot", r"cannot be written as dot: Graphviz ends"),
    ],
)
def test_names_that_a_format_cannot_hold_are_named(name, format_, reason, tmp_path):
    distribution = DrawnGraphs(np.array([[[0, 1], [0, 0]]], np.uint8), np.ones(1))
    posterior = Posterior((name, "x"), distribution)
    with pytest.raises(ValueError, match=reason):
        export.write(posterior, tmp_path / "file", format_)
    assert os.listdir(tmp_path) == []
    export.write(posterior, tmp_path / "file.json")
    assert json.loads((tmp_path / "file.json").read_bytes())["consensus"] == [[name, "x"]]
    export.write(posterior, tmp_path / "file.gml")
    assert arrows(networkx.read_gml(tmp_path / "file.gml")) == {(name, "x"): 1.0}


class _Absent:
    """Makes an import fail as if the package were not there."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == self.name:
            raise ModuleNotFoundError(name)


@pytest.mark.parametrize(("package", "method"), [("pgmpy", "to_pgmpy"), ("arviz", "to_arviz")])
def test_a_package_that_is_not_there_is_named_with_its_extra(package, method, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Absent(package), *sys.meta_path])
    with pytest.raises(ImportError, match=rf"needs {package}.*svidag\[{package}\]"):
        getattr(cyclic(), method)()


def test_pgmpy_gets_no_cycle():
    graph = networkx.to_pandas_adjacency(cyclic().to_networkx(0.1), weight=None).astype(int)
    with pytest.raises(ValueError, match=r"acyclic graphs; this one has the cycle 'a' → 'b'"):
        cyclic().to_pgmpy(graph)


def test_newer_arviz_gets_a_tree(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", types.ModuleType("arviz"))
    table = svidag.datasets.synthetic(m=3, edges=2, n=50, seed=1).data
    posterior = svidag.exact.posterior(table)
    tree = posterior.to_arviz(n=7, seed=2)
    assert isinstance(tree, xarray.DataTree)
    assert tree["posterior"]["graph"].dims == ("draw", "cause", "effect")
    np.testing.assert_array_equal(tree["posterior"]["graph"], posterior.sample(7, seed=2))
    arrow = tree["posterior"]["edge_probability"].sel(cause="x1", effect="x3")
    assert float(arrow) == posterior.edge_probabilities().loc["x1", "x3"]
    before = tree["prior"]["edge_probability"].sel(cause="x1", effect="x3")
    assert float(before) == posterior.problem.prior.edge_probabilities().loc["x1", "x3"]
    np.testing.assert_allclose(tree["observed_data"]["value"], table.to_numpy())
    assert not tree["observed_data"]["intervened"].any()
