"""A mixture is the average of its fits: draws, probabilities, parameters, files."""

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.data.resampling import apportion, resample, split_groups
from svidag.graph import are_dags
from svidag.posterior import DrawnGraphs
from svidag.posterior.mixture import MixtureGraphs, MixtureParameters
from svidag.posterior.sensitivity import Sensitivity

pytestmark = pytest.mark.slow  # runs whole fits

EXAMPLE = svidag.datasets.synthetic(m=4, edges=4, n=200, seed=3)


@pytest.fixture(scope="module")
def fits():
    halves = EXAMPLE.data[:60], EXAMPLE.data[60:]
    return tuple(svidag.exact.posterior(half) for half in halves)


@pytest.fixture(scope="module")
def graphs(fits):
    return MixtureGraphs(tuple(fit.graphs for fit in fits), np.array([0.3, 0.7]))


@pytest.fixture(scope="module")
def bagged():
    return svidag.fit(EXAMPLE.data, method="exact", bags=4, bag_rows=50, progress=False)


def test_probabilities_are_weighted_means(fits, graphs):
    a, b = (fit.edge_probabilities().to_numpy() for fit in fits)
    assert np.allclose(graphs.edge_probabilities(), 0.3 * a + 0.7 * b)
    assert np.allclose(graphs.spread(), np.sqrt(0.21) * np.abs(a - b))
    drawn = graphs.sample(200, seed=1)
    p, q = (np.exp(fit.graphs.log_probability(drawn)) for fit in fits)
    assert np.allclose(np.exp(graphs.log_probability(drawn)), 0.3 * p + 0.7 * q)


def test_draws_follow_the_probabilities(graphs):
    drawn = graphs.sample(20_000, seed=2)
    assert are_dags(drawn).all()
    assert np.abs(drawn.mean(axis=0) - graphs.edge_probabilities()).max() < 0.015
    assert np.array_equal(drawn, graphs.sample(20_000, seed=2))


def test_parameters_come_from_the_fit_that_the_graph_came_from(fits, graphs):
    parameters = MixtureParameters(
        tuple(fit.mechanisms for fit in fits), graphs.components, graphs.weights
    )
    graph = graphs.sample(1, seed=0)[0]
    p, q = (w * np.exp(g.log_probability(graph[None]))[0]
            for w, g in zip(graphs.weights, graphs.components, strict=True))  # fmt: skip
    drawn = parameters.parameters(graph, 4000, seed=0)
    assert (drawn["fit"] == 1).mean() == pytest.approx(q / (p + q), abs=0.03)
    direct = [fit.mechanisms.parameters(graph, 4000, 1)["weights"].mean(axis=0) for fit in fits]
    expected = (p * direct[0] + q * direct[1]) / (p + q)
    assert np.allclose(drawn["weights"].mean(axis=0), expected, atol=0.02)


def test_a_graph_that_no_fit_knows_takes_any_of_them(fits):
    empty = DrawnGraphs(np.zeros((1, 4, 4), dtype=np.uint8), np.ones(1))
    parameters = MixtureParameters(
        tuple(fit.mechanisms for fit in fits), (empty, empty), np.array([0.5, 0.5])
    )
    chain = np.triu(np.ones((4, 4), dtype=np.uint8), 1)
    assert set(parameters.parameters(chain, 50, seed=0)["fit"]) == {0, 1}


def test_a_mixture_of_mechanisms_answers_as_one():
    curved = svidag.datasets.synthetic(m=3, edges=3, n=150, kind="curved", seed=1)
    posterior = svidag.fit(curved.data, bags=4, bag_rows=60, progress=False)
    assert posterior.mechanism == "mixture"
    assert posterior.predictive_log_likelihood(curved.data[:20], n=50).shape == (20,)
    assert posterior.do({"x1": 0.5}, n=50)["x1"].eq(0.5).all()
    assert np.isfinite(posterior.effect("x1", "x2", n=50).mean)
    found = posterior.parameters(posterior.consensus().graph, n=40)
    assert {"fit", "weights", "intercept", "noise_sd", "hidden", "log_scale"} <= set(found)
    assert posterior.diagnostics.details.on_scale == 2


def test_effects_are_the_mean_of_the_fits():
    pair = svidag.datasets.two_node("linear", n=400).data
    prior = svidag.Prior(required=[("x1", "x2")])
    posterior = svidag.fit(pair, method="exact", prior=prior, bags=6, bag_rows=200, progress=False)
    assert posterior.effect("x1", "x2").mean == pytest.approx(1.0, abs=0.1)


def test_saved_and_loaded_is_the_same(bagged, tmp_path):
    loaded = svidag.load(bagged.save(tmp_path / "mixture.svidag"))
    assert np.array_equal(loaded.sample(100, seed=1), bagged.sample(100, seed=1))
    assert loaded.spread().equals(bagged.spread())
    assert loaded.effect("x1", "x2", n=50).mean == bagged.effect("x1", "x2", n=50).mean
    assert loaded.diagnostics.details.specifications == bagged.diagnostics.details.specifications
    page = loaded.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "mixture of 4 fits of 50 rows" in page


def test_large_fits_are_kept_as_draws(monkeypatch):
    monkeypatch.setattr("svidag.methods.mixing.LARGE", 10)
    # With one worker the fits are in this process, where the limit is another.
    posterior = svidag.fit(EXAMPLE.data, method="exact", bags=2, workers=1, progress=False)
    drawn = posterior.sample(4000, seed=1).mean(axis=0)
    assert np.abs(drawn - posterior.edge_probabilities().to_numpy()).max() < 0.06
    assert posterior.graphs.log_probability(posterior.sample(2)) is None


def test_workers_change_nothing(bagged):
    for workers in (1, 2):
        again = svidag.fit(
            EXAMPLE.data, method="exact", bags=4, bag_rows=50, workers=workers, progress=False
        )
        assert again.edge_probabilities().equals(bagged.edge_probabilities())
        assert np.array_equal(again.sample(50), bagged.sample(50))


def test_one_fit_has_no_spread(fits):
    with pytest.raises(ValueError, match="of one fit"):
        fits[0].spread()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"bags": -1}, "bags must be"),
        ({"bags": "many"}, "bags must be"),
        ({"bags": True}, "bags must be"),
        ({"bags": 2, "bag_rows": 3}, "bag_rows must be"),
        ({"workers": 0}, "workers must be"),
        ({"groups": "family"}, "is not a column"),
        ({"groups": [1, 2]}, "2 labels; expected 200"),
    ],
)
def test_what_cannot_be_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        svidag.fit(EXAMPLE.data, progress=False, **wrong)


def test_resamples_keep_the_shares_of_interventions():
    mask = np.zeros((100, 3), dtype=bool)
    mask[60:90, 1], mask[90:, 2] = True, True
    drawn = resample(mask, None, 50, np.random.default_rng(0))
    assert mask[drawn].sum(axis=0).tolist() == [0, 15, 5]
    assert len(np.unique(drawn)) < 50
    assert apportion(np.array([1, 1, 1]), 2).sum() == 2


def test_groups_are_resampled_whole():
    groups = np.repeat(np.arange(20), 5)
    drawn = resample(np.zeros((100, 2), dtype=bool), groups, 60, np.random.default_rng(1))
    count = np.bincount(drawn, minlength=100).reshape(20, 5)
    assert (count == count[:, :1]).all()
    assert len(drawn) == 60


def test_a_column_of_groups_is_no_variable(tmp_path):
    table = EXAMPLE.data.assign(family=[f"f{k // 4}" for k in range(200)])
    file = tmp_path / "table.csv"
    table.to_csv(file, index=False)
    for data in (table, file):
        kept, labels = split_groups(data, "family", None)
        assert list(kept) == list(EXAMPLE.data)
        assert labels.tolist() == [k // 4 for k in range(200)]
    posterior = svidag.fit(
        table, method="exact", groups="family", bags=2, bag_rows=40, progress=False
    )
    assert posterior.names == tuple(EXAMPLE.data)
    dataset = svidag.Dataset.from_any(EXAMPLE.data.assign(g=np.arange(200) // 4))
    assert split_groups(dataset, "g", None)[0].names == tuple(EXAMPLE.data)
    with pytest.raises(ValueError, match="without a label"):
        split_groups(pd.DataFrame({"a": [1.0], "g": [None]}), "g", None)


@pytest.mark.parametrize(("flips", "doubtful"), [(0, False), (1, False), (2, True)])
def test_one_sure_arrow_in_twenty_may_flip(flips, doubtful):
    m = 8
    fit = np.triu(np.full((m, m), 0.99), 1)  # 28 sure arrows
    probe = fit.copy()
    probe[0, 1 : 1 + flips] = 0.0
    names = tuple("abcdefgh")
    found = Sensitivity(names, fit, ("margins",), ("rank-Gaussian margins",), probe[None])
    assert found.sure == 28
    assert found.flipped.sum() == flips
    assert found.doubtful is doubtful
