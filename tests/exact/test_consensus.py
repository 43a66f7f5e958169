"""The consensus graph, ranked classes and joint features against sums over all graphs."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svidag
from svidag.graph import all_dags, cpdag, is_dag
from svidag.posterior import DrawnGraphs, GraphDistribution, Posterior, consensus

FOUR = all_dags(4)
FIVE = all_dags(5)


def listed(probability, graphs=FOUR, names="abcd"):
    return Posterior(tuple(names), DrawnGraphs(graphs, probability))


def random_posterior(seed, graphs=FOUR, names="abcd", few=3):
    """A few graphs with all the mass: their arrows are probable and may form cycles."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(graphs), few, replace=False)
    return listed(rng.dirichlet(np.ones(few)), graphs[chosen], names)


def expected_cost(posterior, graph, threshold):
    wrong = (graph == 1) & (posterior.graphs.graphs == 0)
    missing = (graph == 0) & (posterior.graphs.graphs == 1)
    cost = (threshold * wrong + (1 - threshold) * missing).sum(axis=(1, 2))
    return float(posterior.graphs.probability @ cost)


@pytest.mark.parametrize("threshold", [0.5, 0.3, 0.8])
def test_no_dag_has_a_lower_expected_cost(threshold):
    for seed in range(25):
        posterior = random_posterior(seed)
        found = posterior.consensus(threshold)
        best = min(expected_cost(posterior, graph, threshold) for graph in FOUR)
        assert found.exact
        assert is_dag(found.graph)
        assert expected_cost(posterior, found.graph.to_numpy(), threshold) == pytest.approx(best)
        half = expected_cost(posterior, found.graph.to_numpy(), 0.5)
        assert found.expected_differences == pytest.approx(2 * half)


def cycle(m=3, probability=2 / 3):
    """Every rotation of a chain: each arrow of the cycle has probability (m − 1)/m."""
    graphs = np.zeros((m, m, m), np.uint8)
    for s in range(m):
        for t in range(m - 1):
            graphs[s, (s + t) % m, (s + t + 1) % m] = 1
    return graphs


def test_a_probable_cycle_loses_its_weakest_arrow():
    posterior = listed(np.array([0.4, 0.35, 0.25]), cycle(), "abc")
    found = posterior.consensus()
    assert found.graph.to_numpy().sum() == 2
    p = posterior.edge_probabilities()
    weakest = p.stack()[p.stack() > 0].idxmin()
    assert tuple(found.left_out.loc[0, ["cause", "effect"]]) == weakest
    assert found.left_out.loc[0, "probability"] == pytest.approx(p.loc[weakest])
    assert found.exact


def test_a_graph_without_cycles_is_all_its_probable_arrows():
    posterior = svidag.exact.posterior(svidag.datasets.synthetic(m=6, edges=6, n=80, seed=2).data)
    found = posterior.consensus()
    p = posterior.edge_probabilities()
    pd.testing.assert_frame_equal(found.graph, (p > 0.5).astype(np.uint8))
    assert len(found.left_out) == 0
    assert found.exact


def certain_arrow_in_many_cycles():
    """a → b is certain, and many paths lead back, each of its arrows with probability 2/3."""
    p = np.zeros((14, 14))
    p[0, 1] = 1.0
    for k in range(2, 14, 2):
        p[1, k] = p[k, k + 1] = p[k + 1, 0] = 2 / 3
    return p


@pytest.mark.parametrize("cycles", [400, 0])
def test_a_certain_arrow_is_kept_whatever_it_costs(cycles, monkeypatch):
    monkeypatch.setattr(consensus, "CYCLES", cycles)
    graph, exact = consensus.least_cost_graph(certain_arrow_in_many_cycles(), 0.5)
    assert exact is (cycles > 0)
    assert is_dag(graph)
    assert graph[0, 1] == 1
    assert graph.sum() == 1 + 2 * 6  # one arrow of each path is left out


def test_hard_knowledge_holds_in_the_consensus():
    prior = svidag.Prior(required=[("x3", "x1")], forbidden=[("x1", "x2")], tiers=[["x3"], ["x4"]])
    table = svidag.datasets.synthetic(m=4, edges=3, n=40, seed=5).data
    for threshold in (0.05, 0.5, 0.95):
        found = svidag.exact.posterior(table, prior=prior).consensus(threshold)
        assert found.graph.loc["x3", "x1"] == 1
        assert not (found.graph.to_numpy().astype(bool) & ~prior.bind(list(table)).allowed).any()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.booleans())
def test_cut_cycles_agree_with_all_graphs(seed, sparse):
    rng = np.random.default_rng(seed)
    gain = rng.random((5, 5)) * 0.5 * (rng.random((5, 5)) < 0.5 if sparse else 1)
    np.fill_diagonal(gain, 0.0)
    best = np.einsum("kij,ij->k", FIVE.astype(float), gain).max()
    kept, exact = consensus.without_cycles(gain)
    assert exact
    assert is_dag(kept)
    assert gain[kept].sum() == pytest.approx(best, abs=1e-6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consensus, "CYCLES", 0)
        greedy, exact = consensus.without_cycles(gain)
    assert exact is is_dag(gain > 0)  # nothing to cut
    assert is_dag(greedy)
    assert 0.8 * best <= gain[greedy].sum() <= best + 1e-9


def test_a_cycle_of_any_length_loses_one_arrow():
    m = 60
    found = listed(np.full(m, 1 / m), cycle(m), [f"v{i}" for i in range(m)]).consensus()
    assert found.exact
    assert is_dag(found.graph)
    assert found.graph.to_numpy().sum() == m - 1


def test_what_is_not_solved_says_so(monkeypatch):
    monkeypatch.setattr(consensus, "CYCLES", 0)
    found = listed(np.full(3, 1 / 3), cycle(), "abc").consensus()
    assert not found.exact
    assert found.graph.to_numpy().sum() == 2


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.5, float("nan")])
def test_the_threshold_is_checked(threshold):
    with pytest.raises(ValueError, match="threshold must lie between 0 and 1"):
        random_posterior(0).consensus(threshold)


@pytest.mark.parametrize("weights", ["order", "structure"])
def test_class_probabilities_are_sums_over_members(weights):
    table = svidag.datasets.synthetic(m=4, edges=4, n=30, seed=4).data
    posterior = svidag.exact.posterior(table, graph_weights=weights)
    probability = np.exp(posterior.graphs.log_probability(FOUR))
    total = {}
    for graph, p in zip(FOUR, probability, strict=True):
        key = cpdag(graph).tobytes()
        total[key] = total.get(key, 0.0) + p
    top = posterior.top_classes(3)
    assert [ranked.probability for ranked in top] == pytest.approx(
        sorted(total.values(), reverse=True)[:3]
    )
    for ranked in top:
        assert ranked.exact
        key = ranked.cpdag.to_numpy().tobytes()
        assert total[key] == pytest.approx(ranked.probability)
        assert ranked.cpdag.index.name == "cause"


class Sampled(GraphDistribution):
    """A distribution that knows nothing but its draws."""

    def sample(self, n, seed):
        return DrawnGraphs(cycle(), np.array([0.5, 0.3, 0.2])).sample(n, seed)

    def edge_probabilities(self):
        return self.sample(1000, 0).mean(axis=0)

    def log_probability(self, graphs):
        return None


def test_classes_of_draws_alone_have_shares():
    posterior = Posterior(("a", "b", "c"), Sampled())
    top = posterior.top_classes(5)
    assert not any(ranked.exact for ranked in top)
    assert [ranked.probability for ranked in top] == pytest.approx([0.5, 0.3, 0.2], abs=0.04)
    assert (top[0].cpdag.to_numpy() == cpdag(cycle()[0])).all()
    assert posterior.cpdag().probability == top[0].probability
    with pytest.raises(ValueError, match="k must be a positive whole number"):
        posterior.top_classes(0)


def test_joint_features_are_shares_of_graphs():
    posterior = listed(np.array([0.5, 0.3, 0.2]), cycle(), "abc")
    # The rotations: a → b → c, b → c → a, c → a → b.
    assert posterior.probability_of(path=["a", "b"]) == pytest.approx(0.7)
    n = 20_000
    assert posterior.probability_of(path=["a", "b", "c"], n=n) == pytest.approx(0.5, abs=0.02)
    assert posterior.probability_of(edges=[("a", "b"), ("c", "a")], n=n) == pytest.approx(
        0.2, abs=0.02
    )
    assert posterior.probability_of(absent=[("a", "b")], n=n) == pytest.approx(0.3, abs=0.02)
    assert posterior.probability_of(path=["a", "b"], absent=[("b", "c")], n=n) == pytest.approx(
        0.2, abs=0.02
    )


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({}, "say what should hold"),
        ({"path": "ab"}, "list of at least two names; got 'ab'"),
        ({"path": ["a"]}, "list of at least two names"),
        (
            {"path": ["a", "B"]},
            "'B' is not a variable of this posterior; the nearest column is 'b'",
        ),
        ({"edges": [("a", "z")]}, "'z' is not a variable"),
    ],
)
def test_questions_are_checked(asked, reason):
    with pytest.raises(ValueError, match=reason):
        listed(np.ones(1), cycle()[:1], "abc").probability_of(**asked)


def test_no_graphs_have_no_probabilities():
    table = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=0).data
    assert svidag.exact.posterior(table).graphs.log_probability(FOUR[:0]).shape == (0,)
