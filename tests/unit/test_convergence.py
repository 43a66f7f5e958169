"""When chains have seen enough."""

import warnings

import numpy as np
import pytest

from svidag.run.convergence import (
    Agreement,
    effective_count,
    effective_size,
    half_disagreement,
    mean_error,
)


def autoregressive(rho, chains=4, length=4000, seed=0):
    rng = np.random.default_rng(seed)
    x = np.empty((chains, length))
    x[:, 0] = rng.standard_normal(chains)
    for t in range(1, length):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(chains)
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_size_of_an_autoregression(rho):
    """C S (1 − ρ)/(1 + ρ) in the limit, within the error of estimating it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arviz announces its next version on import
        import arviz
    found = effective_size(autoregressive(rho))
    assert found == pytest.approx(16_000 * (1 - rho) / (1 + rho), rel=0.15)
    assert found == pytest.approx(arviz.ess(autoregressive(rho), method="mean"), rel=0.1)


def test_chains_that_stay_apart_are_worth_few():
    apart = autoregressive(0.0) + np.array([[0.0], [0.0], [5.0], [5.0]])
    assert effective_size(apart) < 20


def test_a_trace_that_never_changes_counts_in_full():
    assert effective_size(np.zeros((2, 50))) == 100
    assert effective_size(np.zeros((2, 2))) == 4


def test_the_worst_division_counts_and_chains_are_pooled_into_four():
    edges = np.zeros((4, 2, 2))
    edges[:, 0, 1] = [1.0, 0.0, 0.0, 1.0]  # halves by position agree
    assert half_disagreement(edges) == 1.0
    many = np.zeros((8, 2, 2))
    many[[0, 4], 0, 1] = 1.0  # one group of four
    assert half_disagreement(many) == 0.5
    assert half_disagreement(edges[:3]) == 1.0
    assert np.isnan(half_disagreement(edges[:1]))


def test_both_conditions_must_hold():
    alike, white = np.zeros((4, 3, 3)), autoregressive(0.0, length=200)
    assert Agreement(0.01, 400.0).reached(alike, white)
    assert not Agreement(0.01, 900.0).reached(alike, white)
    apart = alike.copy()
    apart[0, 0, 1] = 0.5
    assert not Agreement(0.01, 400.0).reached(apart, white)
    assert not Agreement(1.0, 0.0).reached(alike[:1], white[:1])  # a single chain proves nothing


def test_effective_count():
    assert effective_count(np.array([[1, 0]] * 3 + [[0, 1]])) == pytest.approx(
        1 / (9 / 16 + 1 / 16)
    )


def test_the_mean_error_is_that_of_independent_chains():
    """Averages over four chains against the probabilities that the chains vary about."""
    rng = np.random.default_rng(0)
    truth = rng.random((40, 40))
    scale = 0.1 * rng.random((40, 40))
    edges = truth + scale * rng.standard_normal((4, 40, 40))
    off = ~np.eye(40, dtype=bool)
    error = np.abs(edges.mean(axis=0) - truth)[off].mean()
    assert mean_error(edges) == pytest.approx(error, rel=0.1)
    assert np.isnan(mean_error(edges[:1]))


def test_chains_with_a_large_mean_error_do_not_end():
    white = np.random.default_rng(1).standard_normal((4, 500))
    edges = 0.5 + 0.004 * np.random.default_rng(2).standard_normal((4, 5, 5))
    assert half_disagreement(edges) < 0.03
    assert Agreement(0.03, 400.0).reached(edges, white)
    assert not Agreement(0.03, 400.0, 0.0012).reached(edges, white)
    assert Agreement(0.03, 400.0, 0.0012).reached(0.1 * edges, white)
