"""Two posteriors side by side: aligned by name, distances against sums over all graphs."""

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.graph import all_dags
from svidag.posterior import DrawnGraphs, GraphDistribution, Posterior

GRAPHS = all_dags(3)


def listed(seed, names=("a", "b", "c")):
    rng = np.random.default_rng(seed)
    return Posterior(names, DrawnGraphs(GRAPHS, rng.dirichlet(np.ones(len(GRAPHS)))))


def renamed(posterior, names):
    """The same posterior with its variables in another order."""
    places = [posterior.names.index(name) for name in names]
    graphs = posterior.graphs.graphs[:, places][:, :, places]
    return Posterior(tuple(names), DrawnGraphs(graphs, posterior.graphs.probability))


def test_a_posterior_does_not_differ_from_itself_in_another_order():
    posterior = listed(0)
    change = svidag.compare(posterior, renamed(posterior, ("c", "a", "b")))
    assert change.largest_change == pytest.approx(0, abs=1e-12)
    assert change.total_variation == pytest.approx(0, abs=1e-12)
    assert list(change.second.index) == ["a", "b", "c"]


def test_differences_are_labelled_and_ranked():
    first, second = listed(0), renamed(listed(1), ("b", "c", "a"))
    change = svidag.compare(first, second)
    wanted = listed(1).edge_probabilities() - first.edge_probabilities()
    pd.testing.assert_frame_equal(change.difference, wanted)
    top = change.largest(6)
    assert list(top["change"].abs()) == sorted(top["change"].abs(), reverse=True)
    assert top.loc[0, "change"] == pytest.approx(
        change.difference.loc[top.loc[0, "cause"], top.loc[0, "effect"]]
    )
    assert change.mean_change == pytest.approx(np.abs(wanted.to_numpy()).sum() / 6)
    assert len(change.largest(2)) == 2


def test_total_variation_is_exact_for_listed_graphs():
    first, second = listed(0), listed(1)
    wanted = 0.5 * np.abs(first.graphs.probability - second.graphs.probability).sum()
    change = svidag.compare(first, renamed(second, ("b", "c", "a")))
    assert change.total_variation == pytest.approx(wanted)
    assert change.total_variation >= change.largest_change


def test_total_variation_is_estimated_from_draws_of_exact_laws():
    table = svidag.datasets.synthetic(m=4, edges=3, n=40, seed=1).data
    first = svidag.exact.posterior(table)
    second = svidag.exact.posterior(
        table[["x3", "x1", "x4", "x2"]], prior=svidag.Prior(beliefs={("x1", "x2"): 0.9})
    )
    graphs = all_dags(4)
    places = [second.names.index(name) for name in first.names]
    back = np.argsort(places)
    p = np.exp(first.graphs.log_probability(graphs))
    q = np.exp(second.graphs.log_probability(graphs[:, back][:, :, back]))
    wanted = 0.5 * np.abs(p - q).sum()
    assert wanted > 0.05
    estimate = svidag.compare(first, second, n=4000).total_variation
    assert estimate == pytest.approx(wanted, abs=0.03)


def test_laws_without_probabilities_have_no_distance():
    class Sampled(GraphDistribution):
        def sample(self, n, seed):
            return listed(0).sample(n, seed)

        def edge_probabilities(self):
            return listed(1).graphs.edge_probabilities()

        def log_probability(self, graphs):
            return None

    change = svidag.compare(listed(0), Posterior(("a", "b", "c"), Sampled()))
    assert change.total_variation is None
    assert change.summary()["total_variation"] is None
    assert change.largest_change == svidag.compare(listed(0), listed(1)).largest_change


def test_the_summary_counts_arrows_by_what_becomes_of_them():
    def certain(*edges):
        graph = np.zeros((1, 4, 4), np.uint8)
        for i, j in edges:
            graph[0, i, j] = 1
        return Posterior(tuple("abcd"), DrawnGraphs(graph, np.ones(1)))

    change = svidag.compare(certain((0, 1), (1, 2), (2, 3)), certain((0, 1), (2, 1), (0, 3)))
    reported = change.summary()
    counts = [reported[key] for key in ("in_both", "reversed", "only_first", "only_second")]
    assert counts == [1, 1, 1, 1]


def test_other_variables_are_an_error_that_names_them():
    with pytest.raises(ValueError, match=r"only the first has 'c'; only the second has 'd'"):
        svidag.compare(listed(0), listed(0, ("a", "b", "d")))
