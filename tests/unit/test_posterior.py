"""Questions to a posterior whose graphs are known: three graphs with given probabilities."""

import numpy as np
import pandas as pd
import pytest

from svidag.posterior import DrawnGraphs, Posterior

NAMES = ("smoke", "tar", "cancer")


def graph(*edges):
    A = np.zeros((3, 3), dtype=np.uint8)
    for i, j in edges:
        A[i, j] = 1
    return A


GRAPHS = np.stack([graph((0, 1), (1, 2)), graph((0, 2), (1, 2)), graph((2, 1))])


@pytest.fixture
def posterior():
    return Posterior(NAMES, DrawnGraphs(GRAPHS, np.array([0.5, 0.3, 0.2])))


def test_edges_are_labelled_by_cause_and_effect(posterior):
    edges = posterior.edge_probabilities()
    assert edges.index.name == "cause"
    assert edges.columns.name == "effect"
    assert edges.loc["smoke", "tar"] == pytest.approx(0.5)
    assert edges.loc["tar", "smoke"] == 0
    assert edges.loc["tar", "cancer"] == pytest.approx(0.8)


def test_an_adjacency_is_either_direction(posterior):
    adjacent = posterior.adjacency_probabilities()
    assert adjacent.loc["tar", "cancer"] == pytest.approx(1.0)
    assert adjacent.equals(adjacent.T.rename_axis(index="cause", columns="effect"))


def test_rounding_makes_no_probability_larger_than_one():
    graphs = DrawnGraphs(GRAPHS[:1], np.array([1 + 1e-12]))
    assert graphs.edge_probabilities().max() > 1
    posterior = Posterior(NAMES, graphs)
    assert posterior.edge_probabilities().to_numpy().max() == 1
    assert posterior.adjacency_probabilities().to_numpy().max() == 1


def test_ancestors_follow_paths(posterior):
    ancestors = posterior.ancestor_probabilities(n=20_000)
    assert ancestors.loc["smoke", "cancer"] == pytest.approx(0.8, abs=0.02)
    assert ancestors.loc["cancer", "tar"] == pytest.approx(0.2, abs=0.02)


def test_top_graphs_are_ranked_with_their_probability(posterior):
    top = posterior.top_graphs(2)
    assert [t.probability for t in top] == pytest.approx([0.5, 0.3])
    assert (top[0].graph.to_numpy() == GRAPHS[0]).all()
    assert top[0].graph.loc["smoke", "tar"] == 1
    assert len(posterior.top_graphs(10)) == 3


def test_only_a_collider_is_directed_in_the_classes(posterior):
    classes = posterior.cpdag(n=20_000)
    assert classes.directed.loc["smoke", "cancer"] == pytest.approx(0.3, abs=0.02)
    assert classes.directed.loc["smoke", "tar"] == 0
    assert classes.undirected.loc["smoke", "tar"] == pytest.approx(0.5, abs=0.02)
    assert classes.undirected.loc["tar", "smoke"] == classes.undirected.loc["smoke", "tar"]
    assert classes.probability == pytest.approx(0.5, abs=0.02)
    assert classes.most_probable.loc["tar", "smoke"] == 1


def test_log_probability_adds_up_equal_graphs():
    distribution = DrawnGraphs(GRAPHS[[0, 0, 1]], np.array([0.2, 0.3, 0.5]))
    np.testing.assert_allclose(np.exp(distribution.log_probability(GRAPHS)), [0.5, 0.5, 0.0])


@pytest.mark.parametrize("n", [0, -1, True])
def test_the_number_of_draws_is_checked(posterior, n):
    with pytest.raises(ValueError, match="positive whole number"):
        posterior.sample(n)


def test_graphs_alone_have_no_mechanisms(posterior):
    with pytest.raises(ValueError, match="no mechanisms"):
        posterior.parameters(GRAPHS[0])
    with pytest.raises(ValueError, match="no mechanisms"):
        posterior.predictive_log_likelihood(pd.DataFrame(np.eye(3), columns=NAMES))
