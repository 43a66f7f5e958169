"""`mechanism="flexible"` and `coarsen` in `svidag.fit`, against the exact posterior and by hand."""

import numpy as np
import pytest
from scipy.special import gammaln

import svidag
from svidag.mechanisms.flexible import FlexibleMechanism
from svidag.mechanisms.flexible_screen import ScreenedFlexible
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.wide import WideNetwork
from svidag.methods import OrderMCMC
from svidag.methods.fitting import check
from svidag.report.verdict import judge

pytestmark = pytest.mark.filterwarnings("ignore::svidag.data.audit.DataWarning")

NAMES = ("x1", "x2", "x3", "x4", "x5")


@pytest.fixture(scope="module")
def example():
    return svidag.datasets.synthetic(m=5, edges=5, n=300, noise="lognormal", seed=3)


@pytest.fixture(scope="module")
def exact(example):
    return svidag.exact.posterior(example.data, mechanism="flexible")


@pytest.fixture(scope="module")
def fitted(example):
    return svidag.fit(example.data, mechanism="flexible", progress=False)


def edges(posterior):
    return posterior.edge_probabilities().to_numpy()


def test_screened_sums_are_close_to_the_exact_posterior(fitted, exact):
    np.testing.assert_allclose(edges(fitted), edges(exact), atol=0.1)


def test_sampled_orders_are_close_to_the_sums(example, fitted):
    method = OrderMCMC(exact=False, orders=300)
    found = svidag.fit(example.data, method=method, mechanism="flexible", progress=False)
    assert found.mechanism == "flexible"
    np.testing.assert_allclose(edges(found), edges(fitted), atol=0.02)


def test_skewed_noise_directs_arrows(example, exact):
    assert np.abs(edges(exact) - example.truth.to_numpy()).sum() < 1.0


def test_auto_takes_flexible_for_skewed_noise_and_linear_for_gaussian(example):
    assert (found := svidag.fit(example.data, progress=False)).mechanism == "flexible"
    assert found.diagnostics.mechanism_margin > 10
    plain = svidag.datasets.synthetic(m=5, edges=5, n=300, seed=3)
    found = svidag.fit(plain.data, progress=False)
    assert found.mechanism == "linear"
    forced = svidag.fit(plain.data, mechanism="linear", progress=False)
    np.testing.assert_allclose(edges(found), edges(forced))


def test_saving_keeps_draws_and_effects(fitted, tmp_path):
    fitted.save(tmp_path / "fit.svidag")
    again = svidag.load(tmp_path / "fit.svidag")
    np.testing.assert_array_equal(fitted.sample(20), again.sample(20))
    first, second = (each.effect("x1", "x2", n=50).mean for each in (fitted, again))
    assert first == pytest.approx(second)


def test_effects_and_held_out_likelihood(example, fitted):
    cause, effect = np.argwhere(example.truth.to_numpy())[0]
    found = fitted.effect(NAMES[cause], NAMES[effect], n=200)
    assert abs(found.mean) > 0.1
    rows = fitted.do({NAMES[cause]: 1.0}, n=100)
    assert np.isfinite(np.asarray(rows)).all()
    linear = svidag.fit(example.data, mechanism="linear", progress=False)
    further = svidag.datasets.synthetic(m=5, edges=5, n=600, noise="lognormal", seed=3).data[300:]
    flexible, plain = (
        each.mechanisms.log_likelihood(each.sample(30), further.to_numpy(), seed=0).mean()
        for each in (fitted, linear)
    )
    assert flexible > plain + 0.5


def test_the_verdict_does_not_claim_gaussian_noise(fitted):
    verdict = judge(fitted)
    told = " ".join([*verdict.assumptions, *(reason.text for reason in verdict.reasons)])
    assert "Gaussian" not in told
    assert "any smooth shape" in told


def test_parents_that_explain_nothing_are_not_fitted():
    rng = np.random.default_rng(0)
    x = rng.standard_t(3, size=(1000, 5))
    x[:, 1] += x[:, 0]
    x[:, 2] += np.abs(x[:, 0])
    screened = ScreenedFlexible.of(FlexibleMechanism.from_values(x, NAMES))
    parents = np.array([[1, 0, 0, 1, 1], [1, 0, 0, 1, 1]], dtype=bool)
    kept = screened.explaining(np.array([1, 2]), parents)
    np.testing.assert_array_equal(kept, [[1, 0, 0, 0, 0]] * 2)


def test_coarsened_bge_by_hand():
    x = np.random.default_rng(0).standard_normal((60, 2)) + 0.5
    weight, n, m = 0.3, 60, 2
    model = LinearGaussian.from_values(x, weight=weight)
    score = model.family_scores(np.array([1]), np.array([[True, False]]))[0]
    c, t, a, size = weight * n, 0.5, 2.0, 1
    centre = x.mean(axis=0)
    scatter = t * np.eye(m) + weight * (x - centre).T @ (x - centre)
    scatter += c / (c + 1) * np.outer(centre, centre)
    expected = 0.5 * np.log(1 / (c + 1)) + gammaln(0.5 * (c + a + size + 1))
    expected += -gammaln(0.5 * (a + size + 1)) - 0.5 * c * np.log(np.pi)
    expected += 0.5 * (a + 2 * size + 1) * np.log(t) + 0.5 * (c + a + size) * np.log(scatter[0, 0])
    expected -= 0.5 * (c + a + size + 1) * np.linalg.slogdet(scatter)[1]
    assert score == pytest.approx(expected)


def test_coarsened_network_with_few_and_many_units():
    """Rows that count half are as many rows, each twice, that count a quarter."""
    x = np.random.default_rng(1).standard_normal((40, 3))
    families = np.array([2, 2]), np.array([[1, 0, 0], [1, 1, 0]], dtype=bool)
    for units in (10, 60):
        once = WideNetwork.from_values(x, NAMES[:3], units=units, weight=0.5)
        twice = WideNetwork.from_values(np.vstack([x, x]), NAMES[:3], units=units, weight=0.25)
        np.testing.assert_allclose(once.family_scores(*families), twice.family_scores(*families))


@pytest.mark.parametrize("mechanism", ["linear", "nonlinear", "flexible"])
def test_coarsening_vanishes_in_the_limit_and_makes_less_sure(example, mechanism):
    data = example.data[["x1", "x2", "x3"]]
    plain, mild, strong = (
        svidag.exact.posterior(data, mechanism=mechanism, units=20, coarsen=coarsen)
        for coarsen in (None, 1e9, 5.0)
    )
    # Searches for the mode end within a tolerance, which a weight of almost 1 may reach elsewhere.
    np.testing.assert_allclose(edges(mild), edges(plain), atol=0.03)
    spread = [np.abs(edges(each) - 0.5).sum() for each in (plain, strong)]
    assert edges(strong).max() <= edges(plain).max() + 1e-6
    assert spread[1] != spread[0]
    assert strong.diagnostics.fingerprint["coarsen"] == 5.0
    assert "coarsen" not in plain.diagnostics.fingerprint


def test_bad_coarsening_is_named():
    with pytest.raises(ValueError, match="coarsen must be a number of rows above 0"):
        check(coarsen=-1.0)
    with pytest.raises(ValueError, match="does not support coarsen; method='order-mcmc'"):
        check(method="svi-dag", coarsen=100.0)
