"""Synthetic data: the graph, the equations and the interventions are what they claim to be."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from svidag.datasets import Example, content_seed, synthetic, two_node


def linear_in(x, y):
    """Least-squares coefficients of y on the columns of x and a constant."""
    return np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0][:-1]


def residuals(example: Example) -> np.ndarray:
    """Each variable minus its own equation at the observed parents, written out here."""
    x, A = example.data.to_numpy(), example.truth.to_numpy()
    out = x.copy()
    for j, f in enumerate(example.model.mechanisms):
        parents = x[:, A[:, j] == 1]
        if not parents.shape[1]:
            continue
        if example.model.weights is not None:
            out[:, j] -= parents @ f.weights
        else:
            hidden = parents @ f.W1 + f.b1
            out[:, j] -= (hidden * (hidden > 0)) @ f.w2
    return out


@pytest.mark.parametrize("kind", ["linear", "nonlinear"])
@pytest.mark.parametrize("graph", ["er", "sf"])
@pytest.mark.parametrize(("m", "edges"), [(1, 0), (6, 0), (6, 9), (6, 15)])
def test_truth_is_a_dag_with_exactly_the_edges_asked_for(m, edges, graph, kind):
    example = synthetic(m, edges, 20, kind, graph, seed=3)
    truth = example.truth
    assert truth.to_numpy().sum() == edges
    assert nx.is_directed_acyclic_graph(nx.DiGraph(truth.to_numpy()))
    assert not example.cyclic
    assert truth.index.name == "cause"
    assert truth.columns.name == "effect"
    assert example.names == tuple(truth.index) == tuple(f"x{i + 1}" for i in range(m))
    assert example.data.shape == (20, m)
    assert np.isfinite(example.data.to_numpy()).all()


def test_orders_are_not_the_column_order():
    above = [np.triu(synthetic(8, 14, 1, seed=s).truth.to_numpy()).sum() for s in range(20)]
    assert 0.35 < np.mean(above) / 14 < 0.65


# What the published procedure, written down independently in float32 and in the transposed
# convention, gives for its own content seeds at rows and columns
# (0, 0), (0, 1), (0, 2), (0, 3), (99, 24).
AS_PUBLISHED = {
    "ER_p25_s40|n=100|rep=0": (
        "linear",
        [-1.1505975, -1.339872, -1.0884312, 0.13686854, -0.65502787],
    ),
    "case3|ER_p25_s40|n=100|rep=0": (
        "nonlinear",
        [0.08773083, 4.941169, 1.2314744, -2.7453265, 0.91453844],
    ),
}


@pytest.mark.parametrize("seed", AS_PUBLISHED)
def test_content_seeds_reproduce_the_published_procedure(seed):
    kind, values = AS_PUBLISHED[seed]
    data = synthetic(25, 40, 100, kind, seed=seed).data.to_numpy()
    np.testing.assert_allclose(data[[0, 0, 0, 0, 99], [0, 1, 2, 3, 24]], values, rtol=2e-6)


def test_published_graph():
    truth = synthetic(25, 40, 1, seed=content_seed("ER_p25_s40|n=100|rep=0")).truth
    first = np.argwhere(truth.to_numpy())[:6].tolist()
    assert first == [[0, 7], [0, 10], [1, 5], [2, 3], [2, 14], [3, 10]]


def test_content_seed_is_the_little_endian_head_of_sha256():
    assert content_seed("ER_p25_s40|n=1000|rep=0") == 1714777247
    assert content_seed("") == 0x42C4B0E3  # SHA-256 of nothing starts e3 b0 c4 42


def test_seeds_decide_everything():
    one, same, other = (synthetic(5, 6, 30, seed=s) for s in ("a", content_seed("a"), "b"))
    pd.testing.assert_frame_equal(one.data, same.data)
    pd.testing.assert_frame_equal(one.truth, same.truth)
    assert not np.allclose(one.data, other.data)


def test_each_variable_follows_its_parents_and_no_other_predecessor():
    sd = [0.5, 1.0, 2.0, 1.5, 0.7]
    example = synthetic(5, 7, 40_000, seed=1, noise_sd=sd)
    x, W = example.data.to_numpy(), example.model.weights
    assert ((W != 0) == (example.truth.to_numpy() == 1)).all()
    assert ((np.abs(W[W != 0]) >= 0.3) & (np.abs(W[W != 0]) <= 0.7)).all()
    order = list(nx.topological_sort(nx.DiGraph(W != 0)))
    for k, j in enumerate(order):
        before = order[:k]
        np.testing.assert_allclose(linear_in(x[:, before], x[:, j]), W[before, j], atol=0.06)
    np.testing.assert_allclose(residuals(example).std(axis=0), sd, rtol=0.02)


def test_linear_covariance_is_the_implied_one():
    example = synthetic(6, 8, 60_000, seed=5)
    inverse = np.linalg.inv(np.eye(6) - example.model.weights)
    np.testing.assert_allclose(np.cov(example.data.T), inverse.T @ inverse, atol=0.05)


def test_nonlinear_residuals_are_standard_normal_and_independent_of_all_else_before():
    example = synthetic(6, 9, 20_000, "nonlinear", seed=2)
    eps = residuals(example)
    for j in range(6):
        assert stats.kstest(eps[:, j], "norm").pvalue > 1e-3
    np.testing.assert_allclose(np.corrcoef(eps.T), np.eye(6), atol=0.035)
    has_parents = example.truth.to_numpy().any(axis=0)
    signal = example.data.to_numpy() - eps
    assert (signal.std(axis=0)[has_parents] > 0.1).all()
    assert (signal[:, ~has_parents] == 0).all()
    assert example.model.weights is None


@pytest.mark.parametrize(
    ("noise", "excess"), [("gaussian", 0.0), ("laplace", 3.0), ("uniform", -1.2)]
)
def test_noise_has_the_scale_and_the_shape_asked_for(noise, excess):
    example = synthetic(2, 0, 100_000, seed=0, noise=noise, noise_sd=2.0)
    x = example.data.to_numpy()
    np.testing.assert_allclose(x.mean(axis=0), 0.0, atol=0.03)
    np.testing.assert_allclose(x.std(axis=0), 2.0, rtol=0.01)
    np.testing.assert_allclose(stats.kurtosis(x), excess, atol=0.25)


@pytest.mark.parametrize("kind", ["linear", "nonlinear"])
def test_intervened_entries_ignore_their_parents_and_nothing_else_changes(kind):
    plain = synthetic(5, 8, 20_000, kind, seed=4)
    example = synthetic(5, 8, 20_000, kind, seed=4, interventions=0.6)
    mask, x = example.interventions.to_numpy(), example.data.to_numpy()
    assert mask.sum() == 12_000
    assert (mask.sum(axis=1) == np.repeat([0, 1], [8_000, 12_000])).all()
    assert (mask.sum(axis=0) > 2_000).all()
    np.testing.assert_array_equal(x[:8_000], plain.data.to_numpy()[:8_000])
    np.testing.assert_allclose(residuals(example)[~mask], residuals(plain)[~mask], atol=1e-9)
    A = example.truth.to_numpy()
    for j in range(5):
        set_here = x[mask[:, j]]
        assert stats.kstest(set_here[:, j], "norm").pvalue > 1e-3
        for i in np.flatnonzero(A[:, j]):
            assert abs(np.corrcoef(set_here[:, i], set_here[:, j])[0, 1]) < 0.07


def test_interventions_by_name_come_in_blocks_at_the_end():
    example = synthetic(3, 2, 10, seed=0, interventions={"x3": 2, "x1": 3})
    expected = np.zeros((10, 3), dtype=bool)
    expected[5:7, 2] = True
    expected[7:10, 0] = True
    np.testing.assert_array_equal(example.interventions.to_numpy(), expected)
    values = np.random.default_rng(0 + 2).standard_normal(5)
    np.testing.assert_array_equal(example.data.to_numpy()[expected], values)
    assert tuple(example.interventions.columns) == example.names


def test_do_shifts_exactly_the_descendants_by_the_total_effect():
    model = synthetic(6, 9, 1, seed=8).model
    total = np.linalg.inv(np.eye(6) - model.weights)
    for i, name in enumerate(model.names):
        high = model.simulate(3, seed=1, do={name: 1.0})
        low = model.simulate(3, seed=1, do={name: -1.0})
        np.testing.assert_allclose(high - low, np.tile(2 * total[i], (3, 1)), atol=1e-12)


def test_two_node_data_are_the_papers():
    rng = np.random.default_rng(0)
    x1, noise = rng.normal(0, 1, 1000), rng.normal(0, 1, 1000)
    np.testing.assert_allclose(two_node("linear").data, np.column_stack([x1, x1 + noise]))
    rng = np.random.default_rng(123)
    x1, noise = rng.normal(0, 1, 1000), rng.normal(0, 0.1, 1000)
    x2 = np.exp(-(x1**2)) * np.sin(5 * x1**3) + np.sin(3 * np.pi * x1) + noise
    example = two_node("nonlinear")
    np.testing.assert_allclose(example.data, np.column_stack([x1, x2]))
    assert example.truth.to_numpy().tolist() == [[0, 1], [0, 0]]
    assert example.interventions is None


def test_two_node_takes_size_and_seed():
    assert two_node(n=7).data.shape == (7, 2)
    assert not np.allclose(two_node(seed=1).data, two_node().data)
    pd.testing.assert_frame_equal(two_node(seed="a").data, two_node(seed=content_seed("a")).data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": 7}, r"edges must be between 0 and m\(m − 1\)/2 = 6 for m = 4, got 7"),
        ({"edges": -1}, "edges must be between"),
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"m": 0, "edges": 0}, "m must be at least 1, got 0"),
        ({"kind": "cubic"}, "kind must be 'linear' or 'nonlinear' or 'curved', got 'cubic'"),
        ({"graph": "ba"}, "graph must be 'er' or 'sf', got 'ba'"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"weights": (0.7, 0.3)}, "weights must be a pair"),
        ({"noise": "cauchy"}, "noise must be one of gaussian, laplace, .* growing, got 'cauchy'"),
        ({"noise_sd": 0.0}, "noise_sd must be a positive number or 4 of them"),
        ({"noise_sd": [1.0, 2.0]}, "noise_sd must be a positive number or 4 of them"),
        ({"interventions": 1.5}, r"interventions must be a fraction in \(0, 1\], got 1.5"),
        ({"interventions": {"y": 1}}, "interventions name 'y', which is none of x1, x2, x3, x4"),
        ({"interventions": {"x1": -1}}, r"interventions\['x1'\] must be at least 0"),
        ({"interventions": {"x1": 6, "x2": 5}}, "interventions ask for 11 rows, but n is 10"),
    ],
)
def test_impossible_requests_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        synthetic(**{"m": 4, "edges": 3, "n": 10, **arguments})


def test_two_node_and_do_refuse_what_they_do_not_know():
    with pytest.raises(ValueError, match="kind must be"):
        two_node("cubic")
    with pytest.raises(ValueError, match="n must be at least 1"):
        two_node(n=0)
    with pytest.raises(ValueError, match="do names 'z', which is none of x1, x2"):
        two_node().model.simulate(2, seed=0, do={"z": 1.0})
