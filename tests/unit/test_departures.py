"""Data that break assumptions break the one that was asked for, and no other.

Statistical bounds are four standard errors or wider at fixed seeds, so that a right generator
fails in fewer than one of 10 000 choices of the seed.
"""

import hashlib

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from svidag.bench.sources import SOURCES
from svidag.datasets import synthetic
from svidag.datasets.departures import TRANSFORMS

# Hashes of data and truth without any of these options.
BEFORE = {
    ("linear", "gaussian", None): "60eea0a84224c3b8",
    ("linear", "gaussian", 0.3): "3288b377bb9bfe59",
    ("linear", "laplace", None): "7f02914b12169a36",
    ("linear", "laplace", 0.3): "65c138998c265d86",
    ("linear", "uniform", None): "96a96546b520ccf8",
    ("linear", "uniform", 0.3): "d042ef7b0f3f2011",
    ("nonlinear", "gaussian", None): "95128e7bbb9e6fbd",
    ("nonlinear", "gaussian", 0.3): "793532dcf7fcabc5",
    ("nonlinear", "laplace", None): "7a613d3e039fcdf8",
    ("nonlinear", "laplace", 0.3): "43cbecfcafd2ebba",
    ("nonlinear", "uniform", None): "304d67d78e9eaa44",
    ("nonlinear", "uniform", 0.3): "351b216dc9d1211f",
}


def digest(*arrays):
    """A hash of nine digits after the point: the last bits of a sum differ between processors."""
    rounded = (np.round(array, 9) + 0.0 for array in arrays)
    return hashlib.sha256(b"".join(array.tobytes() for array in rounded)).hexdigest()[:16]


def own_part(example):
    """Each variable minus the mean that its equation gives at the values of its parents."""
    x, A = example.data.to_numpy(), example.truth.to_numpy()
    means = [f(x[:, A[:, j] == 1]) for j, f in enumerate(example.model.mechanisms)]
    return x - np.column_stack(means)


@pytest.mark.parametrize(("kind", "noise", "interventions"), BEFORE)
def test_without_the_options_nothing_changed(kind, noise, interventions):
    example = synthetic(6, 8, 40, kind, seed="bits", noise=noise, interventions=interventions)
    assert (
        digest(example.data.to_numpy(), example.truth.to_numpy())
        == BEFORE[kind, noise, interventions]
    )
    assert example.batches is None
    assert example.groups is None


def test_models_without_the_options_simulate_what_they_did():
    example = synthetic(6, 8, 40, "linear", "sf", 3, noise_sd=[0.5, 1.0, 2.0, 1.0, 1.0, 1.0])
    assert digest(example.data.to_numpy(), example.truth.to_numpy()) == "948cafa55683803d"
    simulated = example.model.simulate(30, seed=4, do={"x1": 1.0})
    assert digest(simulated.to_numpy()) == "57307fe9e7db6b2c"


# Skewness and excess kurtosis: None where the distribution has none.
SHAPES = {
    "gaussian": (0.0, 0.0),
    "uniform": (0.0, -1.2),
    "mixture": (1.0935, 0.164),
    "t": (None, None),
    "lognormal": ((np.e + 2) * np.sqrt(np.e - 1), None),
}


@pytest.mark.parametrize("noise", SHAPES)
def test_noise_has_unit_variance_and_its_own_shape(noise):
    x = synthetic(2, 0, 200_000, seed=1, noise=noise).data.to_numpy()
    np.testing.assert_allclose(x.mean(axis=0), 0.0, atol=0.01)
    np.testing.assert_allclose(
        x.std(axis=0), 1.0, rtol=0.05 if noise in ("t", "lognormal") else 0.01
    )
    skewness, excess = SHAPES[noise]
    if skewness is not None:
        np.testing.assert_allclose(stats.skew(x), skewness, atol=0.03, rtol=0.25)
    if excess is None:
        assert (stats.kurtosis(x) > 5).all()
    else:
        np.testing.assert_allclose(stats.kurtosis(x), excess, atol=0.06)


@pytest.mark.parametrize("freedom", [3.0, 5.0])
def test_t_noise_is_students_distribution_at_unit_variance(freedom):
    x = synthetic(1, 0, 20_000, seed=2, noise="t", freedom=freedom, noise_sd=2.0).data["x1"]
    scale = 2.0 * np.sqrt((freedom - 2) / freedom)
    assert stats.kstest(x, stats.t(freedom, scale=scale).cdf).pvalue > 1e-3


def test_noise_shapes_share_graph_and_weights():
    examples = [synthetic(6, 8, 10, seed=5, noise=noise) for noise in ("gaussian", "t", "growing")]
    for other in examples[1:]:
        pd.testing.assert_frame_equal(other.truth, examples[0].truth)
        np.testing.assert_array_equal(other.model.weights, examples[0].model.weights)


def test_growing_noise_grows_with_the_first_parent_and_keeps_its_variance():
    example = synthetic(5, 7, 40_000, seed=3, noise="growing", noise_sd=2.0)
    x, A, e = example.data.to_numpy(), example.truth.to_numpy(), own_part(example)
    np.testing.assert_allclose(e.std(axis=0), 2.0, rtol=0.1)
    for j in range(5):
        parents = np.flatnonzero(A[:, j])
        if not len(parents):
            assert stats.kstest(e[:, j] / 2.0, "norm").pvalue > 1e-3
            continue
        fifths = np.array_split(np.argsort(x[:, parents[0]]), 5)
        spreads = [e[rows, j].std() for rows in fifths]
        assert (np.diff(spreads) > 0).all()
        assert spreads[-1] > 3 * spreads[0]
        assert abs(np.corrcoef(x[:, parents[0]], e[:, j])[0, 1]) < 0.08


def test_growing_noise_follows_an_intervention_on_the_parent():
    example = synthetic(2, 1, 10, seed=0, noise="growing")
    (cause,), (effect,) = np.nonzero(example.truth.to_numpy())
    names = example.names
    low, high = (
        example.model.simulate(5_000, seed=1, do={names[cause]: value})[names[effect]].std()
        for value in (-2.0, 2.0)
    )
    assert high > 4 * low


def test_curved_equations_are_additive_smooth_and_bent():
    example = synthetic(6, 9, 20_000, "curved", seed=2)
    e, A = own_part(example), example.truth.to_numpy()
    for j in range(6):
        assert stats.kstest(e[:, j], "norm").pvalue > 1e-3
    np.testing.assert_allclose(np.corrcoef(e.T), np.eye(6), atol=0.035)
    assert example.model.weights is None
    j = int(A.sum(axis=0).argmax())
    f = example.model.mechanisms[j]
    grid = np.linspace(-3, 3, 301)
    base = np.zeros((301, int(A[:, j].sum())))
    by_parent = []
    for k in range(base.shape[1]):
        one = base.copy()
        one[:, k] = grid
        curve = f(one) - f(base)
        expected = np.sin(f.frequencies[k] * grid + f.phases[k]) - np.sin(f.phases[k])
        np.testing.assert_allclose(curve, np.sqrt(2) * f.weights[k] * expected, atol=1e-12)
        by_parent.append(curve)
    together = np.tile(grid[:, None], base.shape[1])
    np.testing.assert_allclose(f(together) - f(base), np.sum(by_parent, axis=0), atol=1e-12)


def test_a_hidden_cause_correlates_the_noise_of_two_variables():
    example = synthetic(6, 5, 60_000, seed=4, hidden=2)
    H = example.model.hidden_weights
    assert ((H != 0).sum(axis=1) == 2).all()
    assert ((np.abs(H[H != 0]) >= 0.3) & (np.abs(H[H != 0]) <= 0.7)).all()
    np.testing.assert_allclose(np.cov(own_part(example).T), np.eye(6) + H.T @ H, atol=0.035)
    simulated = example.model.simulate(60_000, seed=1)
    np.testing.assert_allclose(np.cov(simulated.T), np.cov(example.data.T), atol=0.15)
    assert list(example.data.columns) == list(synthetic(6, 5, 3, seed=4).data.columns)


def test_hidden_causes_and_batches_leave_the_other_draws_as_they_were():
    plain, hidden = (synthetic(5, 6, 50, seed=1, hidden=k) for k in (0, 2))
    pd.testing.assert_frame_equal(plain.truth, hidden.truth)
    np.testing.assert_array_equal(plain.model.weights, hidden.model.weights)
    both = synthetic(5, 6, 50, seed=1, hidden=2, batches=3, batch_shift=0.0)
    pd.testing.assert_frame_equal(both.data, hidden.data)


def test_batches_shift_equations_and_nothing_causes_them():
    plain = synthetic(5, 6, 20_000, seed=7)
    example = synthetic(5, 6, 20_000, seed=7, batches=4, batch_shift=2.0)
    assert example.batches.name == "batch"
    assert example.batches.value_counts().tolist() == [5_000] * 4
    assert tuple(example.data.columns) == plain.names
    shift = own_part(example) - own_part(plain)
    by_batch = pd.DataFrame(shift).groupby(example.batches.to_numpy())
    assert (by_batch.std() < 1e-9).to_numpy().all()  # one constant in a batch
    assert (by_batch.mean().std() > 0.2).all()  # and another in the next
    # The batch says nothing about the noise: exogenous.
    found = stats.f_oneway(*(own_part(plain)[example.batches == k] for k in range(4)))
    assert (found.pvalue > 1e-4).all()


def test_autocorrelated_noise_has_the_correlation_asked_for_at_every_lag():
    e = own_part(synthetic(3, 2, 60_000, seed=1, autocorrelation=0.8, noise_sd=1.5))
    np.testing.assert_allclose(e.std(axis=0), 1.5, rtol=0.04)
    for lag in (1, 2, 5):
        found = [np.corrcoef(e[:-lag, j], e[lag:, j])[0, 1] for j in range(3)]
        np.testing.assert_allclose(found, 0.8**lag, atol=0.05)


def test_rows_of_a_group_share_a_part_of_their_noise():
    example = synthetic(3, 2, 40_000, seed=1, groups=4_000, group_share=0.3)
    e = own_part(example)
    assert example.groups.name == "group"
    assert example.groups.nunique() == 4_000
    np.testing.assert_allclose(e.var(axis=0), 1.0, atol=0.06)
    between = pd.DataFrame(e).groupby(example.groups.to_numpy()).mean().var()
    np.testing.assert_allclose(between, 0.3 + 0.7 / 10, atol=0.04)


def test_measurement_error_is_the_share_of_the_variance_and_is_independent():
    plain = synthetic(4, 4, 50_000, seed=2).data.to_numpy()
    measured = synthetic(4, 4, 50_000, seed=2, measurement_error=0.2).data.to_numpy()
    error = measured - plain
    np.testing.assert_allclose(error.var(axis=0) / measured.var(axis=0), 0.2, atol=0.01)
    together = np.corrcoef(np.column_stack([plain, error]).T)
    np.testing.assert_allclose(together[:4, 4:], 0.0, atol=0.02)


@pytest.mark.parametrize("distortion", [*TRANSFORMS, "mixed"])
def test_distortion_keeps_ranks_and_bends(distortion):
    plain = synthetic(8, 9, 3_000, seed=6).data
    bent = synthetic(8, 9, 3_000, seed=6, distortion=distortion).data
    pd.testing.assert_frame_equal(plain.rank(), bent.rank())
    correlation = [np.corrcoef(plain[name], bent[name])[0, 1] for name in plain]
    assert (np.array(correlation) < 0.99).all()


def test_mixed_distortion_uses_several_functions():
    bent = synthetic(12, 0, 5_000, seed=6, distortion="mixed").data
    assert {round(x) for x in stats.skew(bent)} > {0}


def test_measurement_acts_after_interventions_and_the_description_tells():
    example = synthetic(
        3, 2, 100, seed=1, interventions=0.5, measurement_error=0.1, hidden=1, batches=2
    )
    assert example.interventions.to_numpy().sum() == 50
    for words in ("1 hidden common causes", "2 batches", "measurement error 0.1"):
        assert words in example.description


def test_the_first_rows_of_a_study_keep_their_batches_and_groups():
    example = SOURCES["synthetic"](
        m=3, edges=2, n=40, batches=2, groups=5, rows=10, seed=1, replicate=0
    )
    whole = synthetic(3, 2, 40, seed=1, batches=2, groups=5)
    assert len(example.data) == len(example.batches) == len(example.groups) == 10
    pd.testing.assert_series_equal(example.batches, whole.batches[:10])
    pd.testing.assert_frame_equal(example.data, whole.data[:10])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise": "t", "freedom": 2.0}, "freedom must be a number above 2, .* got 2.0"),
        ({"hidden": -1}, "hidden must be a whole number ≥ 0, got -1"),
        ({"m": 1, "edges": 0, "hidden": 1}, "hidden causes act on two variables, .* got 1"),
        ({"batches": -2}, "batches must be a whole number ≥ 0, got -2"),
        ({"batches": 11}, "batches must be at most n = 10, got 11"),
        ({"batches": 2, "batch_shift": -1.0}, "batch_shift must be .* got -1.0"),
        ({"groups": 11}, "groups must be at most n = 10, got 11"),
        ({"groups": 2, "group_share": 1.0}, r"group_share must be a share .* \[0, 1\), got 1.0"),
        ({"measurement_error": 1.0}, r"measurement_error must be a share .* \[0, 1\), got 1.0"),
        ({"measurement_error": float("nan")}, "measurement_error must be a share .* got nan"),
        ({"autocorrelation": 1.0}, "autocorrelation must lie strictly between −1 and 1, got 1.0"),
        ({"distortion": "square"}, "distortion must be one of exponential, cubic, .* 'square'"),
    ],
)
def test_impossible_departures_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        synthetic(**{"m": 4, "edges": 3, "n": 10, **arguments})
