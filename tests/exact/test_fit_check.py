"""The check of residuals: its p-values against their own distribution, and what it must notice."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

import svidag
from svidag.posterior.fit_check import _check, check_fit
from svidag.posterior.residuals import residuals

NAMES = ("a", "b", "c", "d")


def residual_table(seed, n=500, m=4):
    return np.random.default_rng(seed).standard_cauchy((n, m))


def test_p_values_of_independent_residuals_are_not_too_small():
    found = [_check(residual_table(seed), NAMES, None) for seed in range(400)]
    p = np.array([check.p_value for check in found])
    for level in (0.01, 0.1, 0.3):  # Bonferroni's bound may be too large, never too small
        assert (p < level).mean() <= level + 3 * np.sqrt(level * (1 - level) / 400)
    assert (p < 0.5).mean() > 0.25  # and it is not idle
    neighbours = np.array([check.neighbour_p_value for check in found])
    assert (neighbours < 0.05).mean() < 0.05


def test_the_statistic_of_one_pair_is_chi_squared():
    p = [_check(residual_table(seed, m=2), ("a", "b"), None).p_value for seed in range(400)]
    halves = np.array(p)[np.array(p) < 1] / 2  # of two equal p-values the smaller, twice
    assert kstest(halves, "uniform", args=(0, 0.5)).pvalue > 1e-3


@pytest.mark.parametrize("form", ["square", "scale", "line"])
def test_dependence_is_noticed_and_named(form):
    e = np.random.default_rng(3).standard_normal((2000, 4))
    if form == "square":
        e[:, 3] += 0.3 * e[:, 1] ** 2
    elif form == "scale":
        e[:, 3] *= np.exp(0.3 * e[:, 1])
    else:
        e[:, 3] += 0.2 * e[:, 1]
    found = _check(e, NAMES, None)
    assert not found.explained
    assert found.pair == ("b", "d")
    assert 0.005 < found.excess < 0.2


def test_sets_of_rows_set_from_outside_are_left_out():
    e = residual_table(1, n=1000)
    e[:500, 2] = np.nan
    found = _check(e, NAMES, None)
    assert found.explained


def test_rows_like_their_neighbours_are_noticed_but_not_a_sorted_column():
    rng = np.random.default_rng(0)
    e = rng.standard_normal((1000, 4))
    e[:, 0] = np.sort(e[:, 0])
    assert _check(e, NAMES, None).rows_independent
    for t in range(1, len(e)):
        e[t] = 0.7 * e[t - 1] + np.sqrt(1 - 0.49) * e[t]
    found = _check(e, NAMES, None)
    assert not found.rows_independent
    assert found.neighbour_correlation == pytest.approx(0.7, abs=0.08)
    assert found.effective_rows(1000) == pytest.approx(1000 * 0.3 / 1.7, rel=0.35)


def test_members_of_a_group_are_neighbours():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(200), 5)
    e = rng.standard_normal((1000, 4)) + rng.standard_normal((200, 4))[groups]
    mixed = rng.permutation(1000)
    assert _check(e[mixed], NAMES, None).rows_independent
    assert not _check(e, NAMES, groups).rows_independent


@pytest.mark.filterwarnings("ignore::svidag.DataWarning")
@pytest.mark.parametrize("noise", ["gaussian", "t", "lognormal"])
def test_residuals_are_the_noise_that_made_the_data(noise):
    example = svidag.datasets.synthetic(m=4, edges=4, n=1000, noise=noise, seed=2)
    truth = example.truth
    required = [(i, j) for i in truth.index for j in truth.columns if truth.loc[i, j]]
    forbidden = [
        (i, j) for i in truth.index for j in truth.columns if i != j and not truth.loc[i, j]
    ]
    posterior = svidag.fit(
        example.data,
        mechanism="flexible",
        prior=svidag.Prior(required=required, forbidden=forbidden),
        progress=False,
    )
    left = residuals(posterior)
    weights = example.model.weights
    made = example.data.to_numpy() @ (np.eye(4) - np.asarray(weights))
    for j in range(4):
        assert (
            np.corrcoef(np.argsort(np.argsort(left[:, j])), np.argsort(np.argsort(made[:, j])))[
                0, 1
            ]
            > 0.99
        )


def test_a_wrong_mechanism_fails_and_the_right_one_passes():
    rng = np.random.default_rng(5)
    cause = rng.standard_normal(1500)
    effect = cause**2 + rng.standard_normal(1500)
    table = pd.DataFrame({"cause": cause, "effect": effect})
    required = svidag.Prior(required=[("cause", "effect")])
    wrong = svidag.fit(table, mechanism="linear", prior=required, progress=False)
    right = svidag.fit(table, mechanism="flexible", prior=required, progress=False)
    assert not check_fit(wrong).explained
    assert check_fit(right).passed
