"""Exported files are read back by other programs' readers, names included."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pydot
import pytest

import svidag
from svidag import export
from svidag.posterior import Posterior
from svidag.samplers.sampled_graphs import VisitedGraphs

NAMES = ("a b", 'say "x"', "<b>&amp;</b>", "№ 1\\n")


@pytest.fixture(scope="module")
def posterior():
    example = svidag.datasets.synthetic(m=4, edges=4, n=150, seed=2)
    return svidag.exact.posterior(example.data.set_axis(list(NAMES), axis=1))


@pytest.fixture(scope="module")
def arrows(posterior):
    found = posterior.consensus().graph.stack()
    return set(found[found == 1].index)


def written(posterior, path):
    export.write(posterior, path)
    return path


def test_networkx_has_the_consensus_with_probabilities(posterior, arrows):
    graph = posterior.to_networkx()
    assert set(graph.nodes) == set(NAMES)
    assert set(graph.edges) == arrows
    edges = posterior.edge_probabilities()
    for a, b, p in graph.edges(data="probability"):
        assert p == edges.loc[a, b]


def test_networkx_above_a_threshold(posterior):
    edges = posterior.edge_probabilities().to_numpy()
    assert posterior.to_networkx(0.3).number_of_edges() == (edges >= 0.3).sum()
    with pytest.raises(ValueError, match="threshold"):
        posterior.to_networkx(0.0)


def test_gml_and_graphml_read_back(posterior, arrows, tmp_path):
    gml = nx.read_gml(written(posterior, tmp_path / "g.gml"))
    graphml = nx.read_graphml(written(posterior, tmp_path / "g.graphml"))
    for graph in (gml, graphml):
        assert set(graph.nodes) == set(NAMES)
        assert set(graph.edges) == arrows
        assert all(p > 0 for _, _, p in graph.edges(data="probability"))


@pytest.mark.filterwarnings("ignore")  # of the reader's own
def test_dot_is_dot(posterior, arrows, tmp_path):
    (graph,) = pydot.graph_from_dot_file(str(written(posterior, tmp_path / "g.dot")))
    assert len(graph.get_edges()) == len(arrows)
    assert '"say \\"x\\""' in {node.get_name() for node in graph.get_nodes()}


def test_csv_lists_every_pair(posterior, tmp_path):
    table = pd.read_csv(written(posterior, tmp_path / "g.csv"))
    assert len(table) == 12
    assert np.all(np.diff(table["probability"]) <= 0)
    assert np.allclose(table["probability"] + table["reverse"], table["adjacency"])
    edges = posterior.edge_probabilities()
    for row in table.itertuples():
        assert row.probability == pytest.approx(edges.loc[row.cause, row.effect])


def test_lists_of_many_variables_leave_out_what_is_hardly_connected(monkeypatch, tmp_path):
    edges = np.zeros((201, 201))
    edges[0, 1], edges[2, 3], edges[4, 5] = 0.9, 0.002, 0.0005
    names = tuple(f"x{k}" for k in range(201))
    many = Posterior(names, VisitedGraphs(np.zeros((1, 201, 201), np.uint8), edges))
    assert len(export.edge_list(many)) == 4
    assert len(export.edge_list(many, least=0.0)) == 201 * 200
    assert len(pd.read_csv(written(many, tmp_path / "g.csv"))) == 4
    content = json.loads(written(many, tmp_path / "g.json").read_text(encoding="utf-8"))
    assert content["least_adjacency"] == 0.001
    assert len(content["edges"]) == 4


def test_json_has_pairs_and_consensus(posterior, arrows, tmp_path):
    content = json.loads(written(posterior, tmp_path / "g.json").read_text(encoding="utf-8"))
    assert {tuple(edge) for edge in content["consensus"]} == arrows
    assert len(content["edges"]) == 12


def test_an_unknown_format_is_refused(posterior, tmp_path):
    with pytest.raises(ValueError, match=r"'g\.xls' is not a known format; there are \['csv'"):
        export.write(posterior, tmp_path / "g.xls")
    with pytest.raises(ValueError, match="format 'xls'"):
        export.write(posterior, tmp_path / "g", format="xls")
    assert not list(tmp_path.iterdir())
