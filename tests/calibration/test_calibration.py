"""On problems from the model itself, stated probabilities come true.

The calibration error of all arrows together must not exceed the upper end of the central 95 % band
of a perfect forecaster: with fresh seeds a right method would fail one time in forty.
"""

import warnings

import numpy as np
import pytest

import svidag
from svidag.bench.prior_predictive import prior_predictive
from svidag.data import DataWarning
from svidag.metrics import brier, calibration_band, expected_calibration_error

M, N = 6, 40
OFF = ~np.eye(M, dtype=bool)


def problems(count, mechanism="linear"):
    return [
        prior_predictive(m=M, n=N, mechanism=mechanism, seed=k, replicate=k) for k in range(count)
    ]


def forecasts(posteriors, examples):
    p = np.concatenate([each.edge_probabilities().to_numpy()[OFF] for each in posteriors])
    y = np.concatenate([example.truth.to_numpy()[OFF] for example in examples])
    return p.clip(0.0, 1.0), y


@pytest.fixture(autouse=True)
def quiet():
    # Data from heavy-tailed priors are skewed; the audit says so.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        yield


def exact(examples, **options):
    return [svidag.exact.posterior(example.data, **options) for example in examples]


def test_the_exact_posterior_is_calibrated_and_sharper_than_the_prior():
    examples = problems(40)
    p, y = forecasts(exact(examples, standardise=False), examples)
    assert expected_calibration_error(p, y) <= calibration_band(p)[1]
    prior = svidag.Prior().bind(examples[0].names).edge_probabilities().iloc[0, 1]
    assert brier(p, y) < 0.9 * brier(np.full(len(y), prior), y)


def test_the_band_tells_a_model_that_lost_its_scales():
    examples = problems(30)
    scaled = [svidag.exact.posterior(5 * one.data, standardise=False) for one in examples]
    p, y = forecasts(scaled, examples)
    assert expected_calibration_error(p, y) > calibration_band(p)[1]


def test_standardised_columns_cost_little_calibration():
    # 0.026 on 400 problems; with the prior scale of columns in their own units it is 0.041.
    examples = problems(60)
    p, y = forecasts(exact(examples, standardise=True), examples)
    assert expected_calibration_error(p, y) <= 0.03 + calibration_band(p)[0]


def test_a_fit_with_chains_forecasts_as_the_exact_posterior_does():
    examples = problems(4)
    chains = svidag.methods.OrderMCMC(exact=False)
    asked = {"mechanism": "linear", "standardise": False, "progress": False}
    fits = [
        svidag.fit(example.data, method=chains, seed=k, **asked)
        for k, example in enumerate(examples)
    ]
    p, y = forecasts(fits, examples)
    right, _ = forecasts(exact(examples, standardise=False), examples)
    assert np.abs(p - right).mean() < 0.01
    assert expected_calibration_error(p, y) <= calibration_band(p)[1]


@pytest.mark.parametrize("mechanism", ["linear", "nonlinear", "mlp"])
def test_problems_follow_their_seed_and_their_graph(mechanism):
    first, same, other = (
        prior_predictive(m=4, n=4000, mechanism=mechanism, seed=seed, replicate=0)
        for seed in (1, 1, 2)
    )
    assert first.data.equals(same.data)
    assert not first.data.equals(other.data)
    ranks = first.data.rank().to_numpy()
    correlation = np.abs(np.corrcoef(ranks.T))
    related = np.linalg.matrix_power(
        np.eye(4) + (first.truth + first.truth.T).to_numpy(), 4
    )  # joined by a path of any direction
    assert correlation[related == 0].max(initial=0.0) < 0.06


def test_the_variance_of_a_root_has_the_prior_of_bge():
    # v ~ InvGamma(3/2, 1/4), so that 1/v has mean 6, and E|mean|²/v = about 1.
    columns = [
        prior_predictive(m=2, n=200, prior={"forbidden": [["x1", "x2"], ["x2", "x1"]]}, **seed)
        for seed in ({"seed": k, "replicate": 0} for k in range(300))
    ]
    x = np.array([example.data["x1"].to_numpy() for example in columns])
    precision = 1 / x.var(axis=1, ddof=1)
    assert precision.mean() == pytest.approx(6.0, rel=0.15)
    assert (x.mean(axis=1) ** 2 * precision).mean() == pytest.approx(1.0, rel=0.25)
