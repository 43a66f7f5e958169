"""Predictions against closed forms, and against integrals of the predictive density."""

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.effects.prediction import _linear, weighed


@pytest.fixture(scope="module")
def table():
    return svidag.datasets.synthetic(m=4, edges=4, n=120, seed=3).data


@pytest.fixture(scope="module")
def linear(table):
    return svidag.exact.posterior(table)


@pytest.mark.parametrize("unknown", [[1], [0, 2]])
def test_candidates_agree_with_the_closed_form(table, linear, unknown):
    equations = linear.mechanisms.draw(linear.sample(100, 0), 0)
    rows, columns = table.to_numpy()[:12], np.array(unknown)
    _, _, exact = _linear(equations, rows, columns)
    _, weights, found = weighed(equations, rows, columns, seed=0)
    spread = table.to_numpy()[:, unknown].std(axis=0)
    assert (np.abs(found - exact) < 0.02 * spread).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)


@pytest.mark.parametrize("mechanism", ["linear", "flexible", "nonlinear"])
def test_a_prediction_is_the_mean_of_the_predictive_density(table, mechanism):
    posterior = svidag.exact.posterior(table, mechanism=mechanism)
    rows = table.head(3)
    found = posterior.predict(rows, "x2", n=60, level=0.9)["x2"]
    spread = table["x2"].std()
    grid = np.linspace(table["x2"].min() - 3 * spread, table["x2"].max() + 3 * spread, 1500)
    for label, row in rows.iterrows():
        filled = pd.DataFrame(
            np.repeat(row.to_numpy()[None], len(grid), axis=0), columns=rows.columns
        )
        filled["x2"] = grid
        log_p = posterior.predictive_log_likelihood(filled, n=60)
        share = np.exp(log_p - log_p.max())
        share /= share.sum()
        assert found.loc[label, "mean"] == pytest.approx(share @ grid, abs=0.03 * spread)
        below = share.cumsum()
        for word, q in (("low", 0.05), ("high", 0.95)):
            end = grid[np.searchsorted(below, q)]
            assert found.loc[label, word] == pytest.approx(end, abs=0.12 * spread)


def test_rows_may_lack_columns_and_keep_their_labels(table, linear):
    rows = table.head(4).set_axis(list("wxyz"))[["x4", "x1", "x3"]]
    found = linear.predict(rows)
    assert list(found) == ["x2"]
    assert list(found.index) == list("wxyz")
    whole = linear.predict(table.head(4), "x2")
    np.testing.assert_allclose(found, whole)
    assert list(linear.predict(table.head(2), ["x4", "x1"])) == ["x1", "x4"]


def test_a_prediction_beats_the_mean_of_the_column(table, linear):
    fresh = svidag.datasets.synthetic(m=4, edges=4, n=120, seed=3).data.tail(60)
    errors = {
        name: ((linear.predict(fresh, name)[name] - fresh[name]) ** 2).mean() / fresh[name].var()
        for name in table
    }
    assert min(errors.values()) < 0.5
    assert max(errors.values()) < 1.1


def test_values_far_from_the_observed_ones_are_told(table, linear):
    with pytest.warns(svidag.ExtrapolationWarning, match="'x1' = 1000"):
        linear.predict(table.head(1).assign(x1=1000.0), "x2")
