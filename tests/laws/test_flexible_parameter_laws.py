"""Draws of flexible mechanisms: units, interventions, means, densities."""

import numpy as np
import pytest
from scipy.stats import ks_2samp, skew

from svidag.data import Scaling
from svidag.mechanisms.flexible import FlexibleMechanism
from svidag.mechanisms.flexible_parameters import FlexibleParameters
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.linear_parameters import LinearParameters
from svidag.mechanisms.residual_density import COEFFICIENTS, TiltedDensity

pytestmark = pytest.mark.slow  # compiles flexible fits

NAMES = ("a", "b", "c")
GRAPH = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=np.uint8)


def table(n=600, seed=0):
    """Skewed noise, a curved effect and a scale that grows, far from standard units."""
    rng = np.random.default_rng(seed)
    x = rng.exponential(size=(n, 3))
    x[:, 1] += 2 * x[:, 0]
    x[:, 2] = np.abs(x[:, 0] - 1) + np.exp(0.3 * x[:, 1]) * (x[:, 2] - 1)
    return x * [2.0, 0.5, 3.0] + [1.0, -4.0, 10.0]


def fitted(values, locations=("linear", "network"), **settings):
    scaling = Scaling(values.mean(axis=0), values.std(axis=0))
    model = FlexibleMechanism.from_values(
        scaling.apply(values), NAMES, locations=locations, units=20, **settings
    )
    return FlexibleParameters(model, scaling)


def repeated(draws):
    return np.repeat(GRAPH[None], draws, axis=0)


def test_parameters_have_their_shapes_and_repeat_with_the_seed():
    distribution = fitted(table())
    first, again = (distribution.parameters(GRAPH, n=5, seed=3) for _ in range(2))
    shapes = {name: found.shape for name, found in first.items()}
    assert shapes["weights"] == (5, 3, 3)
    assert shapes["hidden"] == (5, 3, 20 + 2 * 6)
    assert shapes["beta"] == (5, 3, COEFFICIENTS)
    for name, found in first.items():
        np.testing.assert_array_equal(found, again[name])


def test_gaussian_data_give_the_draws_of_linear_mechanisms():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((500, 3)) @ np.array([[1.0, 0.5, 1.0], [0, 1, 0.5], [0, 0, 1]])
    flexible = fitted(x, locations=("linear",)).parameters(GRAPH, n=2000, seed=0)
    scaling = Scaling(x.mean(axis=0), x.std(axis=0))
    plain = LinearParameters(LinearGaussian.from_values(scaling.apply(x)), scaling)
    linear = plain.parameters(GRAPH, n=2000, seed=0)
    for name in ("weights", "intercept"):
        np.testing.assert_allclose(flexible[name].mean(0), linear[name].mean(0), atol=0.02)
        np.testing.assert_allclose(flexible[name].std(0), linear[name].std(0), atol=0.01)


def test_simulated_rows_look_like_the_table():
    values = table(2000)
    equations = fitted(values).draw(repeated(20), seed=0)
    noise = np.random.default_rng(0).standard_normal((20, 200, 3))
    rows = equations.propagate(np.full(noise.shape, np.nan), noise, np.ones((20, 3), dtype=bool))
    simulated = rows.reshape(-1, 3)
    for j in range(3):
        assert ks_2samp(simulated[:, j], values[:, j]).statistic < 0.06
    assert skew(simulated[:, 0]) > 1.0


def test_the_mean_given_an_intervention_counts_the_mean_of_the_noise():
    values = table(3000, seed=2)
    equations = fitted(values).draw(repeated(30), seed=0)
    noise = np.random.default_rng(1).standard_normal((30, 500, 3))
    given = np.full(noise.shape, np.nan)
    given[..., 0] = 3.0
    follow = np.tile([False, True, False], (30, 1))
    drawn = equations.propagate(given, noise, follow)[..., 1]
    expected = np.mean([equations.expected(s, 1, given[s, :1])[0] for s in range(30)])
    assert drawn.mean() == pytest.approx(expected, abs=0.02)
    # a = 1 + 2e with b = 0.5 (f + 2e) − 4: at a = 3 the mean is 0.5 (1 + 2) − 4.
    assert drawn.mean() == pytest.approx(-2.5, abs=0.05)


def test_held_out_rows_are_predicted_better_than_by_linear_mechanisms():
    values, further = table(1000, seed=3), table(500, seed=4)
    flexible = fitted(values).log_likelihood(repeated(20), further, seed=0)
    scaling = Scaling(values.mean(axis=0), values.std(axis=0))
    plain = LinearParameters(LinearGaussian.from_values(scaling.apply(values)), scaling)
    linear = plain.log_likelihood(repeated(20), further, seed=0)
    assert flexible.mean() > linear.mean() + 0.5


def test_log_likelihood_is_a_density():
    equations = fitted(table()).draw(repeated(2), seed=1)
    rows = np.repeat(table(1, seed=9), 20_001, axis=0)
    rows[:, 2] = np.linspace(-400, 400, len(rows))
    at = np.exp(equations.log_likelihood(rows))
    location, log_scale = equations.predict(0, 2, rows[:1])
    assert np.isfinite(location).all()
    assert np.isfinite(log_scale).all()
    # p(a, b) is the same in all rows: what is left integrates to it.
    first = rows[:1].copy()
    for s in range(2):
        total = 1.0
        for j in range(2):
            where, log_sd = equations.predict(s, j, first)
            z = (first[:, j] - where) * np.exp(-log_sd)
            total *= np.exp(TiltedDensity(equations.beta[s, j]).log_density(z) - log_sd)[0]
        step = rows[1, 2] - rows[0, 2]
        assert at[s].sum() * step == pytest.approx(total, rel=0.02)


def test_nodes_that_nobody_asks_for_are_not_fitted():
    chosen = np.tile([False, True, False], (2, 1))
    equations = fitted(table()).draw(repeated(2), seed=0, nodes=chosen)
    assert np.isfinite(equations.intercept[:, 1]).all()
    assert np.isnan(equations.intercept[:, [0, 2]]).all()
